//! The failure matrix, as far as targets and replicas go: each row a script, judged like all else.

use mirror::Flaw;

use super::{
    script::{ANY, CUT_OFF, SET_BACK_CLEAR, SET_BACK_DIRTY, SET_BACK_FENCED, play},
    world::{Shape, World},
};

/// The end of a script in which no promise broke.
fn kept(shape: &Shape, script: &str) -> World {
    let (world, _) = play(shape, None, script);
    assert_eq!(world.broken, None);
    world
}

fn acked(world: &World) -> u8 {
    world.host.blocks[0].acked
}

/// What the replicas hold of block 0.
fn held(world: &World) -> Vec<u8> {
    world.sites.iter().map(|site| site.disk.now[0]).collect()
}

fn healthy(world: &World) -> usize {
    world.record.healthy().count()
}

#[test]
fn a_connection_lost_in_a_write_holds_the_ack_until_the_exclusion_is_recorded() {
    let begin = "
        the host writes block 0 v1 through T1
        T1/A#0 hears: write
        T1/A#0 answers
        T1/B#0 is cut";
    assert_eq!(acked(&kept(&ANY, begin)), 0);
    let recorded = format!("{begin}\n is written\n says Committed\n");
    assert_eq!(acked(&kept(&ANY, &recorded)), 0, "the survivor does not know yet");
    let known = format!("{recorded}\n T1/A#0 hears: roster\n T1/A#0 answers");
    assert_eq!(acked(&kept(&ANY, &known)), 1);
    let after = kept(&ANY, &format!("{known}\n go"));
    assert_eq!((held(&after), healthy(&after)), (vec![1, 1], 2));
}

#[test]
fn a_return_copies_only_what_was_missed() {
    let world = kept(
        &ANY,
        "the host writes block 1 v1 through T1
        go
        the host flushes through T1
        go
        Tick
        go
        T1/B#0 is cut
        is written
        says Committed
        T1/A#0 hears: roster
        T1/A#0 answers
        the host writes block 0 v1 through T1
        go but T1/B",
    );
    let absent = world.sites[0].disk.header.absent.values().next();
    let lacked: Vec<_> = absent.into_iter().flat_map(|absent| absent.regions.iter()).collect();
    assert_eq!(lacked, [0]);
}

#[test]
fn a_killed_target_leaves_everything_that_was_acknowledged() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        the host writes block 0 v2 through T1
        T1/A#0 hears: write
        T1 dies
        T2 is started
        go
        the host reads block 0 through T2
        go",
    );
    let values = held(&world);
    assert!(values[0] >= 1 && values[0] == values[1], "{values:?}");
    assert!(world.record.resync_source.is_none() && healthy(&world) == 2);
}

#[test]
fn what_a_replica_lost_with_its_power_comes_back() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        B loses power, left [0, 0]
        go",
    );
    assert_eq!((held(&world), healthy(&world)), (vec![1, 1], 2));
}

#[test]
fn if_every_replica_lost_power_the_first_flush_fails_once() {
    let begin = "
        the host writes block 0 v1 through T1
        go
        T1 dies
        A loses power, left [0, 0]
        B loses power, left [0, 0]
        T2 is started
        go";
    let warned = kept(&ANY, begin);
    assert!(warned.host.owed.is_some());
    let told = kept(&ANY, &format!("{begin}\n the host flushes through T2\n go"));
    assert!(told.host.owed.is_none() && !told.record.unflushed_lost);
    let again = "the host flushes through T2\n go\n the host flushes through T2\n go";
    kept(&ANY, &format!("{begin}\n {again}"));
}

#[test]
fn without_the_store_a_target_with_all_its_children_keeps_serving() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go but the record
        the host flushes through T1
        go but the record",
    );
    assert_eq!((acked(&world), world.host.blocks[0].flushed), (1, 1));
}

#[test]
fn without_the_store_a_write_that_a_child_lacks_is_never_acknowledged() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        T1/B#0 is cut
        go but the record, T1/B
        Tick
        go but the record, T1/B",
    );
    assert_eq!(acked(&world), 0);
    assert_eq!(held(&world), [1, 0]);
}

#[test]
fn an_old_target_that_is_cut_off_reads_nothing_old() {
    kept(&ANY, CUT_OFF);
    let (world, _) = play(&ANY, Some(Flaw::ReadUnleased), CUT_OFF);
    assert_eq!(world.broken.as_deref(), Some("block 0 reads v0, v1 was there before"));
}

#[test]
fn the_only_replica_restarts_and_every_acknowledged_write_is_there() {
    let one = Shape { sites: 1, ..ANY };
    let world = kept(
        &one,
        "the host writes block 0 v1 through T1
        go
        T1 dies
        A restarts
        T2 is started
        go
        the host reads block 0 through T2
        go",
    );
    assert!(!world.record.unflushed_lost);
    assert_eq!(held(&world), [1]);
}

#[test]
fn commands_of_a_dropped_connection_are_drained_before_the_next_is_let_in() {
    let slow = Shape { slow_disks: true, grace: true, ..ANY };
    let begin = "
        the host writes block 0 v1 through T1
        T1/B#0 hears: write
        T1/B#0 is cut
        T1/B#1 hears: fence 1";
    let waiting = kept(&slow, begin);
    let wire = waiting.wires.iter().find(|wire| wire.site == 1 && wire.session == 1);
    assert!(wire.is_some_and(|wire| wire.answers.is_empty()), "the old write is still under way");
    let world = kept(&slow, &format!("{begin}\n the disk of B ends\n go"));
    assert_eq!((held(&world), acked(&world), healthy(&world)), (vec![1, 1], 1, 2));
}

#[test]
fn a_write_that_only_the_unreached_replica_has_is_overwritten_on_its_return() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        T1/B#0 hears: write
        T1 dies
        T2 is started
        go but T2/B, T1/A
        Tick
        go but T2/B
        the host reads block 0 through T2
        go",
    );
    assert_eq!((held(&world), healthy(&world)), (vec![0, 0], 2));
}

#[test]
fn a_clean_stop_leaves_nothing_to_copy() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        Stop(0)
        go",
    );
    assert!(world.record.clean && world.record.owner.is_none());
    assert!(world.sites.iter().all(|site| site.disk.header.dirty.is_empty()));
}

#[test]
fn a_host_is_attached_until_its_last_write_is_drained() {
    let slow = Shape { slow_disks: true, ..ANY };
    let begin = "
        the host writes block 0 v1 through T1
        T1/A#0 hears: write
        T1/B#0 hears: write
        HostLoss(0)";
    // The host of a small world connects again at once: another session, the same host.
    let world = kept(&slow, &format!("{begin}\n Stop(0)"));
    let hosts = |world: &World| world.targets[0].machine.as_ref().map(|t| t.seen().hosts.len());
    assert_eq!(hosts(&world), Some(1), "its write is still on the disks");
    let world = kept(&slow, &format!("{begin}\n Stop(0)\n go"));
    assert_eq!(hosts(&world), Some(0));
    assert!(world.record.clean);
}

#[test]
fn a_full_replica_is_left_out_and_the_write_succeeds() {
    let world = kept(
        &ANY,
        "B is full
        the host writes block 0 v1 through T1
        go but T1/B#1",
    );
    assert_eq!((acked(&world), healthy(&world)), (1, 1));
}

#[test]
fn if_all_replicas_are_full_the_host_hears_it_and_they_stay_equal() {
    let world = kept(
        &ANY,
        "A is full
        B is full
        the host writes block 0 v1 through T1
        go",
    );
    assert_eq!((acked(&world), healthy(&world)), (0, 2));
    assert!(world.host.asked.is_empty());
    assert_eq!(held(&world), [0, 0]);
}

#[test]
fn a_replica_that_cannot_sync_is_left_out_and_the_flush_succeeds() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        B cannot sync
        the host flushes through T1
        go but T1/B#1",
    );
    assert_eq!((world.host.blocks[0].flushed, healthy(&world)), (1, 1));
}

#[test]
fn what_one_replica_cannot_read_is_read_elsewhere_and_repaired() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        A cannot be read
        the host reads block 0 through T1
        go",
    );
    assert!(world.host.asked.is_empty());
    assert_eq!((world.sites[0].disk.ailment, healthy(&world)), (None, 2));
    assert_eq!(held(&world), [1, 1]);
}

/// What the replicas hold of snapshots, oldest first.
fn images(world: &World) -> Vec<Vec<Vec<u8>>> {
    let of = |site: &super::world::Site| {
        site.disk.images.iter().map(|(_, values)| values.clone()).collect()
    };
    world.sites.iter().map(|site| of(site)).collect()
}

#[test]
fn a_replica_that_was_away_for_snapshots_gets_each_as_it_was_frozen() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        T1/B#0 is cut
        go but T1/B
        the host writes block 0 v2 through T1
        go but T1/B
        a snapshot is wanted
        go but T1/B
        the host writes block 0 v3 through T1
        go but T1/B
        a snapshot is wanted
        go but T1/B
        the host writes block 1 v1 through T1
        go",
    );
    let both = vec![vec![2, 0], vec![3, 0]];
    assert_eq!(images(&world), [both.clone(), both]);
    assert_eq!((held(&world), healthy(&world)), (vec![3, 3], 2));
}

#[test]
fn a_snapshot_that_a_dead_target_left_half_taken_is_taken_anew() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        a snapshot is wanted
        T1/A#0 hears: snapshot
        T1 dies
        T2 is started
        go but T1/B, T2/A#0 hears: fetch, T2/B#0 hears: fetch
        the host writes block 1 v1 through T2
        go",
    );
    let both = vec![vec![1, 1]];
    assert_eq!(images(&world), [both.clone(), both]);
    assert_eq!(world.sites[0].disk.images[0].0.roster, world.sites[1].disk.images[0].0.roster);
    assert_eq!(healthy(&world), 2);
}

#[test]
fn a_snapshot_that_one_replica_cannot_take_is_taken_back_and_reported() {
    let world = kept(
        &ANY,
        "the host writes block 0 v1 through T1
        go
        B is full
        a snapshot is wanted
        go",
    );
    assert_eq!(images(&world), [Vec::<Vec<u8>>::new(), Vec::new()]);
    let failed = world.targets[0].machine.as_ref().map(|t| t.seen().failed_snapshots.len());
    assert_eq!((failed, healthy(&world)), (Some(1), 2));
}

#[test]
fn an_older_snapshot_that_counts_at_once_reaches_a_late_replica_as_it_was_frozen() {
    let three = Shape { sites: 3, ..ANY };
    // B is full, so the first snapshot fails, and of the second only A has its half. Both are due
    // again at T2: it takes the first, and once B is excluded the half counts beside it. C was
    // written to since.
    let world = kept(
        &three,
        "the host writes block 0 v1 through T1
        go
        T1/C#0 is cut
        go but T1/C
        B is full
        a snapshot is wanted
        go but T1/C
        a snapshot is wanted
        T1/A#0 hears: snapshot
        T1 dies
        T2 is started
        go but T1, T2/A#0 hears: resync
        the host writes block 0 v2 through T2
        T2/A#0 hears: resync
        T2/A#0 answers
        the host writes block 1 v1 through T2
        go but T1, T2/B#0 answers: Failed
        go",
    );
    let both = vec![vec![1, 0], vec![2, 1]];
    assert_eq!(images(&world), [both.clone(), Vec::new(), both]);
    assert_eq!((held(&world), healthy(&world)), (vec![2, 1, 2], 2));
}

#[test]
fn a_replica_that_fails_its_last_flush_while_the_healthy_one_is_away_is_given_up() {
    // No time passes, so what is not done when all is quiet never will be.
    let timeless = Shape { ticks: 0, ..ANY };
    let world = kept(
        &timeless,
        "T1/B#0 is cut
        go but T1/B
        the host writes block 0 v1 through T1
        go but T1/B
        B cannot sync
        go but T1/B#1 hears: flush
        T1/A#0 is cut
        T1/B#1 hears: flush
        T1/B#1 answers
        a snapshot is wanted
        go but T1/B#2",
    );
    assert_eq!(images(&world), [vec![vec![1, 0]], Vec::new()], "nothing waits for B");
    assert_eq!(healthy(&world), 1);
}

#[test]
fn a_flush_that_came_during_one_that_fails_has_a_try_of_its_own() {
    let one = Shape { sites: 1, ..ANY };
    let world = kept(
        &one,
        "the host writes block 0 v1 through T1
        go
        the host flushes through T1
        HostLoss(0)
        the host flushes through T1
        A cannot sync
        go",
    );
    assert!(world.host.asked.is_empty(), "the second flush was answered, too");
    assert_eq!(world.host.blocks[0].flushed, 0);
}

/// The first target's config changes.
fn configured(mut world: World, change: impl FnOnce(&mut model::TargetItem)) -> World {
    change(&mut world.targets[0].item);
    let item = world.targets[0].item.clone();
    world.tell_target(0, mirror::Input::Config(item));
    super::script::go_on(&mut world);
    assert_eq!(world.broken, None);
    world
}

#[test]
fn a_retired_replica_is_excluded_and_no_longer_seen() {
    let begun = kept(&ANY, "the host writes block 0 v1 through T1\n go");
    let world = configured(begun, |item| item.children[1].retire = true);
    assert_eq!(healthy(&world), 1);
    assert!(!world.record.is_recorded_healthy(super::world::replica_id(1)));
    let seen = world.targets[0].machine.as_ref().map(|target| target.seen().children);
    let seen: Vec<_> = seen.into_iter().flatten().map(|(id, _)| id).collect();
    assert_eq!(seen, [super::world::replica_id(0)]);
}

#[test]
fn the_last_healthy_replica_is_not_retired() {
    let begun = kept(&ANY, "the host writes block 0 v1 through T1\n go");
    let world = configured(begun, |item| {
        item.children.iter_mut().for_each(|child| child.retire = true);
    });
    assert_eq!(healthy(&world), 1);
}

#[test]
fn a_replica_that_is_no_longer_named_leaves_the_record() {
    let begun = kept(&ANY, "the host writes block 0 v1 through T1\n go");
    let world = configured(begun, |item| {
        item.children.pop();
    });
    let members: Vec<_> = world.record.children.keys().copied().collect();
    assert_eq!((healthy(&world), members), (1, vec![super::world::replica_id(0)]));
}

/// RS-2, M-29: a disk that was set back to an older image of itself is found out, whatever it says.
#[test]
fn a_disk_that_was_set_back_is_copied_whole_and_never_a_source() {
    for script in [SET_BACK_CLEAR, SET_BACK_DIRTY, SET_BACK_FENCED] {
        let world = kept(&ANY, script);
        let newest = world.host.blocks[0].issued;
        assert_eq!((held(&world), healthy(&world)), (vec![newest, newest], 2));
    }
}

#[test]
fn each_rule_about_disks_that_were_set_back_is_missed_when_left_out() {
    let cases = [
        (Flaw::SetBackAccepted, SET_BACK_CLEAR),
        (Flaw::SetBackSameEpochAccepted, SET_BACK_CLEAR),
        (Flaw::CleanUnproven, SET_BACK_CLEAR),
        (Flaw::SourceNotNewest, SET_BACK_DIRTY),
        (Flaw::EvidenceErasedByFence, SET_BACK_FENCED),
        (Flaw::EvidenceErasedByFlush, SET_BACK_FENCED),
    ];
    for (flaw, script) in cases {
        let (world, _) = play(&ANY, Some(flaw), script);
        let broken = world.broken.filter(|words| !words.ends_with("cannot happen now"));
        assert!(broken.is_some(), "{flaw:?}");
    }
}
