//! One thing at a time, without crashes.

use alloc::{boxed::Box, vec::Vec};

use block::{
    Durability::{self, Durable, Volatile},
    Extent,
};

use super::world::{SMALL, World, clone_of, filled, fsck, new_replica, replica, snapshot, take};
use crate::{Crash, Error, Image, PageState, Reply, Request, Stop};

fn world() -> World {
    let mut world = World::new(2048, SMALL, 1);
    world.done(Request::Create(Box::new(new_replica(1, 300)))).unwrap();
    world
}

const ONE: Image = Image::Replica(replica_one());

const fn replica_one() -> model::ReplicaId {
    model::ReplicaId::from_u128(1)
}

#[test]
fn what_was_written_is_read_and_the_rest_is_zeros() {
    let mut world = world();
    let extent = Extent::new(60, 10);
    world.write(1, extent, 9).unwrap();
    assert_eq!(world.read(ONE, extent).unwrap(), filled(extent, 9));
    let around = world.read(ONE, Extent::new(58, 14)).unwrap();
    assert!(around.slice(0..2 * 4096).is_zero() && around.slice(12 * 4096..14 * 4096).is_zero());
    assert_eq!(around.slice(2 * 4096..12 * 4096), filled(extent, 9));
}

#[test]
fn an_overwrite_of_durable_pages_is_one_write_and_no_record() {
    let mut world = world();
    let extent = Extent::new(3, 4);
    world.write(1, extent, 1).unwrap();
    world.done(Request::Flush).unwrap();
    world.settle().unwrap();
    let before = world.ios;
    world.write(1, extent, 2).unwrap();
    assert_eq!(world.ios - before, 1);
    world.read(ONE, extent).unwrap();
    assert_eq!(world.ios - before, 2);
    world.done(Request::Flush).unwrap();
    assert_eq!(world.ios - before, 3);
}

#[test]
fn what_is_outside_or_unknown_is_refused() {
    let mut world = world();
    let write = |of, start, blocks| {
        let extent = Extent::new(start, blocks);
        let data = filled(extent, 1);
        Request::Write { replica: replica(of), extent, data, durability: Volatile }
    };
    assert_eq!(world.ask(write(1, 299, 2)).unwrap(), Err(Error::OutOfRange));
    assert_eq!(world.ask(write(1, 0, 0)).unwrap(), Err(Error::OutOfRange));
    assert_eq!(world.ask(write(2, 0, 1)).unwrap(), Err(Error::NotFound));
    let again = Request::Create(Box::new(new_replica(1, 3)));
    assert_eq!(world.ask(again).unwrap(), Err(Error::Exists));
    let extent = Extent::new(u64::MAX, 2);
    let read = Request::Read { image: ONE, extent };
    assert_eq!(world.ask(read).unwrap(), Err(Error::OutOfRange));
}

#[test]
fn a_deallocated_range_reads_zeros_and_gives_its_space_back() {
    let mut world = world();
    let all = Extent::new(0, 300);
    world.write(1, all, 5).unwrap();
    let used = world.pool.stats().used;
    let zero =
        Request::Zero { replica: replica(1), extent: Extent::new(0, 200), durability: Durable };
    world.done(zero).unwrap();
    world.check_accounts();
    assert!(world.pool.stats().used < used);
    let read = world.read(ONE, all).unwrap();
    assert!(read.slice(0..200 * 4096).is_zero());
    assert_eq!(read.slice(200 * 4096..300 * 4096), filled(Extent::new(200, 100), 5));
}

#[test]
fn snapshots_keep_what_was_and_clones_begin_with_it() {
    let mut world = world();
    let extent = Extent::new(10, 20);
    world.write(1, extent, 1).unwrap();
    world.done(take(5, 1)).unwrap();
    world.write(1, Extent::new(10, 5), 2).unwrap();
    let zero =
        Request::Zero { replica: replica(1), extent: Extent::new(15, 5), durability: Volatile };
    world.done(zero).unwrap();
    world.done(Request::Create(Box::new(clone_of(2, 5, 400)))).unwrap();
    world.write(2, Extent::new(12, 1), 3).unwrap();

    let frozen = Image::Snapshot(replica(1), snapshot(5));
    assert_eq!(world.read(frozen, extent).unwrap(), filled(extent, 1));
    let live = world.read(ONE, extent).unwrap();
    assert_eq!(live.slice(0..5 * 4096), filled(Extent::new(10, 5), 2));
    assert!(live.slice(5 * 4096..10 * 4096).is_zero());
    let states = world.pool.alloc_map(ONE, Extent::new(9, 12)).unwrap();
    let states: alloc::vec::Vec<_> =
        states.iter().map(|(run, state)| (run.blocks, *state)).collect();
    let expected = [
        (1, PageState::Hole),
        (5, PageState::Own),
        (5, PageState::Hole),
        (1, PageState::Inherited),
    ];
    assert_eq!(states, expected);
    let clone = world.read(Image::Replica(replica(2)), extent).unwrap();
    assert_eq!(clone.slice(2 * 4096..3 * 4096), filled(Extent::new(12, 1), 3));
    assert_eq!(clone.slice(3 * 4096..20 * 4096), filled(Extent::new(13, 17), 1));
}

#[test]
fn changes_since_a_snapshot_are_what_was_written_or_hidden_after_it() {
    let mut world = world();
    world.write(1, Extent::new(0, 8), 1).unwrap();
    world.done(take(5, 1)).unwrap();
    world.write(1, Extent::new(2, 1), 2).unwrap();
    world.done(take(6, 1)).unwrap();
    world.write(1, Extent::new(9, 1), 3).unwrap();
    let zero =
        Request::Zero { replica: replica(1), extent: Extent::new(4, 2), durability: Volatile };
    world.done(zero).unwrap();
    let all = Extent::new(0, 12);
    let changes = |image, since| {
        let found = world.pool.changes(image, since, all).unwrap();
        found.into_iter().map(|(run, has)| (run.start, run.blocks, has)).collect::<Vec<_>>()
    };
    let two = Image::Snapshot(replica(1), snapshot(6));
    assert_eq!(changes(two, Some(snapshot(5))), [(2, 1, true)]);
    assert_eq!(changes(ONE, Some(snapshot(6))), [(4, 2, false), (9, 1, true)]);
    assert_eq!(changes(ONE, Some(snapshot(5))), [(2, 1, true), (4, 2, false), (9, 1, true)]);
    // One that is not below it, or not there, says nothing: everything may differ.
    let whole = [(0, 8, true), (8, 4, false)];
    assert_eq!(changes(two, None), whole);
    assert_eq!(changes(two, Some(snapshot(9))), whole);
    let one = Image::Snapshot(replica(1), snapshot(5));
    assert_eq!(changes(one, Some(snapshot(6))), whole);
}

#[test]
fn a_snapshot_that_was_smaller_keeps_its_size_and_reads_as_zeros_past_it() {
    let mut world = world();
    world.write(1, Extent::new(0, 8), 1).unwrap();
    let Request::Snapshot { replica: of, snapshot: id, attempt, roster, name, .. } = take(5, 1)
    else {
        unreachable!("it is a snapshot")
    };
    let smaller = |blocks| {
        let name = name.clone();
        Request::Snapshot { replica: of, snapshot: id, attempt, roster, blocks, name }
    };
    assert_eq!(world.ask(smaller(Some(1 << 30))).unwrap(), Err(Error::OutOfRange));
    world.done(smaller(Some(16))).unwrap();
    assert_eq!(world.pool.snapshots().next().unwrap().blocks, 16);
    let past = world.read(Image::Snapshot(of, id), Extent::new(1 << 20, 2)).unwrap();
    assert!(past.is_zero());
    world.done(Request::Create(Box::new(clone_of(2, 5, 16)))).unwrap();
    assert_eq!(
        world.ask(Request::Create(Box::new(clone_of(3, 5, 15)))).unwrap(),
        Err(Error::OutOfRange)
    );
}

#[test]
fn a_deleted_snapshot_is_merged_away_and_nothing_else_changes() {
    let mut world = world();
    let extent = Extent::new(0, 130);
    world.write(1, extent, 1).unwrap();
    world.done(take(5, 1)).unwrap();
    world.write(1, Extent::new(5, 5), 2).unwrap();
    let live = world.read(ONE, extent).unwrap();
    let delete = Request::DeleteSnapshot { replica: replica(1), snapshot: snapshot(5) };
    world.done(delete.clone()).unwrap();
    world.settle().unwrap();
    world.done(Request::Flush).unwrap();
    world.settle().unwrap();
    assert_eq!(world.read(ONE, extent).unwrap(), live);
    assert_eq!(world.pool.replica(replica(1)).unwrap().space.ancestors.0, 0);
    assert_eq!(world.pool.stats().used.0, 3 << 18);
    assert_eq!(world.ask(delete).unwrap(), Err(Error::NotFound));
    world.check_accounts();
}

#[test]
fn an_exported_pool_is_clean_and_complete() {
    let mut world = world();
    let extent = Extent::new(0, 70);
    world.write(1, extent, 4).unwrap();
    world.done(Request::Export).unwrap();
    assert_eq!(world.ask(Request::Flush).unwrap(), Err(Error::Exported));
    let report = fsck(&mut world.disk).unwrap();
    assert!(report.is_clean && report.replicas == 1 && report.batches == 0);
    assert_eq!(world.open(), Stop::Clean);
    assert_eq!(world.read(ONE, extent).unwrap(), filled(extent, 4));
    assert_eq!(world.crash(Crash::Process), Stop::Process);
    assert_eq!(world.crash(Crash::Power), Stop::Power);
    assert_eq!(world.read(ONE, extent).unwrap(), filled(extent, 4));
}

#[test]
fn a_full_pool_refuses_writes_and_still_deletes() {
    let mut world = World::new(1024, SMALL, 1);
    world.done(Request::Create(Box::new(new_replica(1, 4096)))).unwrap();
    let mut at = 0;
    let refused = loop {
        let extent = Extent::new(at, 64);
        let data = filled(extent, 1);
        let write = Request::Write { replica: replica(1), extent, data, durability: Volatile };
        if let Err(error) = world.ask(write).unwrap() {
            break error;
        }
        at += 64;
    };
    assert_eq!(refused, Error::NoSpace);
    assert_eq!(world.pool.stats().free.0, 0);
    world.done(take(5, 1)).unwrap();
    let zero =
        Request::Zero { replica: replica(1), extent: Extent::new(0, 640), durability: Volatile };
    world.done(zero).unwrap();
    world.done(Request::DeleteSnapshot { replica: replica(1), snapshot: snapshot(5) }).unwrap();
    world.settle().unwrap();
    world.done(Request::Delete { replica: replica(1) }).unwrap();
    world.settle().unwrap();
    world.done(Request::Flush).unwrap();
    assert_eq!(world.pool.stats().free, world.pool.stats().capacity);
}

#[test]
fn a_thick_replica_never_runs_out_of_what_was_set_aside() {
    let mut world = World::new(2048, SMALL, 1);
    let thick = crate::NewReplica { thin: false, ..new_replica(1, 640) };
    world.done(Request::Create(Box::new(thick))).unwrap();
    world.done(Request::Create(Box::new(new_replica(2, 8192)))).unwrap();
    let mut at = 0;
    loop {
        let extent = Extent::new(at, 64);
        let data = filled(extent, 1);
        let write = Request::Write { replica: replica(2), extent, data, durability: Volatile };
        if world.ask(write).unwrap().is_err() {
            break;
        }
        at += 64;
    }
    for at in (0..640).step_by(64) {
        world.write(1, Extent::new(at, 64), 2).unwrap();
    }
    let zero =
        Request::Zero { replica: replica(1), extent: Extent::new(0, 640), durability: Volatile };
    world.done(zero).unwrap();
    world.write(1, Extent::new(0, 640), 3).unwrap();
    assert_eq!(world.ask(take(5, 1)).unwrap(), Err(Error::NoSpace));
    world.check_accounts();
}

#[test]
fn a_failed_sync_is_never_taken_back() {
    let mut world = world();
    world.write(1, Extent::new(0, 1), 1).unwrap();
    world.disk.fail_syncs(true);
    assert!(matches!(world.ask(Request::Flush).unwrap(), Err(Error::Faulted { .. })));
    world.disk.fail_syncs(false);
    assert!(matches!(world.ask(Request::Flush).unwrap(), Err(Error::Faulted { .. })));
    assert!(world.pool.fault().is_some());
    assert!(world.read(ONE, Extent::new(0, 1)).is_ok());
}

#[test]
fn a_failed_read_is_told_and_hashes_tell_blocks_apart() {
    let mut world = world();
    world.done(Request::Flush).unwrap();
    let extent = Extent::new(0, 3);
    world.disk.fail_reads(true);
    world.write(1, extent, 1).unwrap();
    assert!(matches!(world.ask(Request::Read { image: ONE, extent }).unwrap(), Err(Error::Io(_))));
    world.disk.fail_reads(false);
    let hashes = world.ask(Request::Hash { image: ONE, extent }).unwrap().unwrap();
    let Reply::Hashes(hashes) = hashes else { panic!("hashes were asked for") };
    assert!(hashes.len() == 3 && hashes[0] != hashes[1]);
}

#[test]
fn a_failed_write_takes_no_space_and_changes_nothing() {
    let mut world = world();
    let (extent, fresh) = (Extent::new(0, 3), Extent::new(64, 3));
    world.write(1, extent, 1).unwrap();
    let used = world.pool.stats().used;
    world.disk.fail_writes(Some(world.pool.geometry().data * 4096));
    let data = filled(fresh, 2);
    let write = Request::Write { replica: replica(1), extent: fresh, data, durability: Volatile };
    assert!(matches!(world.ask(write).unwrap(), Err(Error::Io(_))));
    world.disk.fail_writes(None);
    assert_eq!(world.pool.stats().used, used);
    assert!(world.read(ONE, fresh).unwrap().is_zero());
    world.check_accounts();
    world.write(1, fresh, 3).unwrap();
    world.crash(Crash::Process);
    assert_eq!(world.read(ONE, fresh).unwrap(), filled(fresh, 3));
    assert_eq!(world.read(ONE, extent).unwrap(), filled(extent, 1));
}

#[test]
fn an_aborted_snapshot_waits_for_the_one_it_takes_back() {
    let mut world = world();
    world.write(1, Extent::new(0, 1), 1).unwrap();
    let taken = world.submit(take(5, 1));
    let attempt = model::AttemptId::from_u128(5);
    world.done(Request::AbortSnapshot { replica: replica(1), attempt }).unwrap();
    assert!(world.wait(taken).unwrap().is_ok());
    assert_eq!(world.pool.snapshots().count(), 0);
    let unknown = Request::AbortSnapshot { replica: replica(3), attempt };
    world.done(unknown).unwrap();
}

#[test]
fn requests_on_the_same_blocks_take_effect_in_the_order_they_came() {
    for seed in 0..20 {
        let mut world = World::new(2048, SMALL, seed);
        world.done(Request::Create(Box::new(new_replica(1, 300)))).unwrap();
        let extent = Extent::new(60, 10);
        let write = |fill| {
            let data = filled(extent, fill);
            Request::Write {
                replica: replica(1),
                extent,
                data,
                durability: Durability::from_fua(seed % 2 == 0),
            }
        };
        let zero = |extent| Request::Zero { replica: replica(1), extent, durability: Volatile };
        let asked = [
            write(1),
            take(5, 1),
            write(2),
            take(6, 1),
            zero(extent),
            Request::Read { image: ONE, extent },
            write(3),
            zero(Extent::new(62, 2)),
            Request::DeleteSnapshot { replica: replica(1), snapshot: snapshot(6) },
        ]
        .map(|request| world.submit(request));
        let read = world.wait(asked[5]).unwrap();
        assert!(matches!(read, Ok(Reply::Data(data)) if data.is_zero()));
        for (at, id) in asked.into_iter().enumerate().filter(|(at, _)| *at != 5 && *at != 8) {
            assert!(world.wait(id).unwrap().is_ok(), "request {at}");
        }
        world.settle().unwrap();
        let frozen = Image::Snapshot(replica(1), snapshot(5));
        assert_eq!(world.read(frozen, extent).unwrap(), filled(extent, 1));
        let live = world.read(ONE, extent).unwrap();
        assert_eq!(live.slice(0..2 * 4096), filled(Extent::new(60, 2), 3));
        assert!(live.slice(2 * 4096..4 * 4096).is_zero());
        world.check_accounts();
        let last = [write(4), Request::Delete { replica: replica(1) }, write(5)]
            .map(|request| world.submit(request));
        let answers = last.map(|id| world.wait(id).unwrap());
        assert!(answers[0].is_ok() && answers[1].is_ok(), "{answers:?}");
        assert_eq!(answers[2], Err(Error::NotFound));
    }
}

#[test]
fn a_pool_grows_onto_a_larger_device() {
    let mut world = world();
    let before = world.pool.stats().capacity;
    assert_eq!(world.ask(Request::Grow { blocks: 1 }).unwrap(), Err(Error::OutOfRange));
    world.disk.grow(4096);
    let sizes = world.pool.geometry().table.blocks / 2 * 126 * 64;
    assert!(sizes >= 2048);
    world.done(Request::Grow { blocks: 4000 }).unwrap();
    assert!(world.pool.stats().capacity > before);
    world.write(1, Extent::new(0, 300), 8).unwrap();
    world.crash(Crash::Process);
    assert!(world.pool.stats().capacity > before);
    let read = world.read(ONE, Extent::new(0, 300)).unwrap();
    assert_eq!(read, filled(Extent::new(0, 300), 8));
}
