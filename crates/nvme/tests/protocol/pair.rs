//! Initiator against target.

use std::{collections::BTreeSet, time::Duration};

use block::{
    BLOCK, Buffer,
    Durability::{Durable, Volatile},
    Extent,
};
use nvme::{
    Code, Digests, Op, Reply, Vendor, VendorData, initiator::Event, target::Hosts, wire::log::Ana,
};
use proptest::prelude::*;

use crate::rig::{BLOCKS, Rig, volume};

fn pattern(extent: &Extent, salt: u64) -> Buffer {
    let mut bytes = vec![0; usize::try_from(extent.bytes()).unwrap()];
    for (block, bytes) in (extent.start..).zip(bytes.chunks_mut(BLOCK)) {
        for (word, bytes) in (0u64..).zip(bytes.chunks_mut(8)) {
            let value = block.wrapping_mul(0x9e37_79b9).wrapping_add(salt) ^ word;
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
    Buffer::copy_of(&bytes)
}

#[test]
fn a_session_attaches_and_learns_the_namespace() {
    let rig = Rig::live(volume(), Digests::BOTH, 1);
    let attached = rig.attached.unwrap();
    assert_eq!((attached.blocks, attached.nsid, attached.cntlid), (BLOCKS, 1, 100));
    assert_eq!(attached.uuid.unwrap().as_u128(), 0x1234);
    assert_eq!(attached.max_transfer, 1 << 20);
    assert_eq!((attached.ana, attached.io_queues), (Ana::Optimized, 2));
    assert!(attached.has_write_cache);
}

#[test]
fn what_is_written_is_read_in_one_piece_or_many() {
    for digests in [Digests::NONE, Digests::BOTH] {
        let mut rig = Rig::live(volume(), digests, 2);
        for (start, blocks) in [(0, 1), (5, 4), (9, 5), (100, 256), (1023, 1)] {
            let extent = Extent::new(start, blocks);
            let data = pattern(&extent, 77);
            let write = Op::Write { extent, data: data.clone(), durability: Volatile };
            assert_eq!(rig.run(write), Ok(Reply::Done));
            assert_eq!(rig.run(Op::Read { extent }), Ok(Reply::Data(data)));
        }
        assert_eq!(rig.run(Op::Flush), Ok(Reply::Done));
        assert_eq!(rig.disk.flushes, 1);
    }
}

#[test]
fn other_commands_reach_the_disk_too() {
    let mut rig = Rig::live(volume(), Digests::NONE, 3);
    let extent = Extent::new(0, 8);
    let data = pattern(&extent, 5);
    rig.run(Op::Write { extent, data: data.clone(), durability: Durable }).unwrap();
    assert_eq!(rig.run(Op::Compare { extent, data: data.clone() }), Ok(Reply::Done));
    assert_eq!(rig.run(Op::Verify { extent }), Ok(Reply::Done));
    rig.run(Op::Zero { extent: Extent::new(0, 1), deallocate: true, durability: Volatile })
        .unwrap();
    let failed = rig.run(Op::Compare { extent, data }).unwrap_err();
    assert_eq!(failed.code, Code::CompareFailure);
    let extents = vec![Extent::new(1, 2), Extent::new(5, 3)];
    rig.run(Op::Deallocate { extents }).unwrap();
    let Ok(Reply::Data(left)) = rig.run(Op::Read { extent }) else { panic!("no data") };
    let zero: Vec<bool> = left.bytes().chunks(BLOCK).map(|b| b.iter().all(|b| *b == 0)).collect();
    assert_eq!(zero, [true, true, true, false, false, true, true, true]);
}

#[test]
fn blocks_that_are_not_there_are_refused() {
    let mut rig = Rig::live(volume(), Digests::NONE, 4);
    for extent in [Extent::new(BLOCKS, 1), Extent::new(BLOCKS - 1, 2), Extent::new(u64::MAX, 1)] {
        let status = rig.run(Op::Read { extent }).unwrap_err();
        assert_eq!((status.code, status.is_final), (Code::LbaOutOfRange, true));
        // Also where the data would have been asked for.
        let big = Extent::new(extent.start, 64);
        let data = Buffer::zeroed(64 * BLOCK);
        let status = rig.run(Op::Write { extent: big, data, durability: Volatile }).unwrap_err();
        assert_eq!(status.code, Code::LbaOutOfRange);
    }
    assert!(rig.session.is_live());
}

#[test]
fn vendor_commands_carry_data_both_ways_to_a_replica_only() {
    let write = |bytes| {
        let data = VendorData::ToController(Buffer::copy_of(&vec![3; bytes]));
        Op::Vendor(Vendor { opcode: 0xc5, words: [1, 2, 3, 4, 5, 6], data })
    };
    let read = Vendor { opcode: 0xc2, words: [0; 6], data: VendorData::FromController(70_000) };
    let mut rig = Rig::live(nvme::target::Kind::Replica, Digests::BOTH, 5);
    for bytes in [1, 8192, 100_000] {
        assert_eq!(rig.run(write(bytes)), Ok(Reply::Done));
        assert_eq!(rig.disk.vendor.pop(), Some((0xc5, vec![3; bytes])));
    }
    let answer = Buffer::copy_of(&vec![0x5a; 70_000]);
    assert_eq!(rig.run(Op::Vendor(read)), Ok(Reply::Data(answer)));

    let mut rig = Rig::live(volume(), Digests::NONE, 5);
    for bytes in [1, 100_000] {
        assert_eq!(rig.run(write(bytes)).unwrap_err().code, Code::InvalidOpcode);
    }
}

#[test]
fn hosts_hear_of_new_sizes_and_of_paths() {
    let mut rig = Rig::live(volume(), Digests::NONE, 6);
    rig.port.resize(rig.subsystem, 2048);
    rig.port.set_ana(rig.subsystem, Ana::Inaccessible);
    rig.settle();
    rig.events.sort_by_key(|event| matches!(event, Event::Ana(_)));
    assert_eq!(rig.events, [Event::Resized { blocks: 2048 }, Event::Ana(Ana::Inaccessible)]);
    let status = rig.run(Op::Flush).unwrap_err();
    assert!(status.is_path_related() && !status.is_final, "{status}");
    // Told again each time, because the log was read.
    rig.port.set_ana(rig.subsystem, Ana::Optimized);
    rig.settle();
    assert_eq!(rig.events.last(), Some(&Event::Ana(Ana::Optimized)));
    assert_eq!(rig.run(Op::Flush), Ok(Reply::Done));
}

#[test]
fn a_host_that_is_struck_off_goes_and_its_requests_are_waited_for() {
    let mut rig = Rig::live(volume(), Digests::NONE, 7);
    rig.is_held = true;
    rig.submit(1, Op::Flush);
    rig.settle();
    rig.port.set_hosts(rig.subsystem, &Hosts::Only(BTreeSet::new()));
    rig.settle();
    assert!(rig.dead.is_some());
    assert_eq!(rig.done[&1].clone().unwrap_err().code, Code::HostPath);
    assert!(rig.closed.is_empty(), "a request is still with the disk");
    rig.is_held = false;
    rig.settle();
    assert_eq!(rig.closed, rig.opened);
    assert_eq!(rig.port.sessions().count(), 0);
}

#[test]
fn a_session_whose_connections_break_is_over_when_its_last_request_is() {
    let mut rig = Rig::live(volume(), Digests::NONE, 8);
    rig.is_held = true;
    for tag in 0..10 {
        rig.submit(tag, Op::Flush);
    }
    rig.settle();
    rig.cut();
    rig.settle();
    assert!(rig.closed.is_empty());
    rig.is_held = false;
    rig.settle();
    assert_eq!(rig.closed, rig.opened);
}

#[test]
fn a_silent_host_is_dropped_and_a_quiet_one_is_not() {
    let mut rig = Rig::live(volume(), Digests::NONE, 8);
    for _ in 0..20 {
        rig.tick(Duration::from_millis(2500));
    }
    assert!(rig.session.is_live());
    // From here on the target hears nothing.
    rig.now += Duration::from_secs(6);
    rig.port.tick(rig.now);
    rig.settle();
    assert!(rig.dead.is_some());
    assert_eq!(rig.closed, rig.opened);
}

#[test]
fn a_command_that_takes_too_long_ends_the_session() {
    let mut rig = Rig::live(volume(), Digests::NONE, 9);
    rig.is_held = true;
    rig.submit(1, Op::Flush);
    rig.settle();
    for _ in 0..20 {
        rig.tick(Duration::from_secs(2));
    }
    assert_eq!(rig.dead, Some(nvme::initiator::Reason::CommandTimeout { queue: 2 }));
    assert_eq!(rig.done[&1].clone().unwrap_err().code, Code::HostPath);
}

/// What one round does, all at once: disjoint writes, and reads of blocks that no write touches.
#[derive(Clone, Debug)]
struct Round {
    extents: Vec<(Extent, bool)>,
    salt: u64,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let extent = (0u64..BLOCKS, prop_oneof![1u32..6, 1u32..80, 200u32..257], any::<bool>());
    let round = (prop::collection::vec(extent, 1..40), any::<u64>()).prop_map(|(wished, salt)| {
        let mut extents: Vec<(Extent, bool)> = Vec::new();
        for (start, blocks, is_write) in wished {
            let blocks = blocks.min(u32::try_from(BLOCKS - start).unwrap());
            let extent = Extent::new(start, blocks);
            let meets = |(other, other_writes): &(Extent, bool)| {
                other.overlaps(&extent) && (is_write || *other_writes)
            };
            if !extents.iter().any(meets) {
                extents.push((extent, is_write));
            }
        }
        Round { extents, salt }
    });
    prop::collection::vec(round, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn data_is_what_the_model_says_however_the_bytes_are_cut(
        rounds in rounds(), header in any::<bool>(), data in any::<bool>(), seed in any::<u64>(),
    ) {
        let mut rig = Rig::live(volume(), Digests { header, data }, seed);
        let mut model = vec![0u8; usize::try_from(BLOCKS).unwrap() * BLOCK];
        let place = |extent: &Extent| {
            let start = usize::try_from(extent.offset()).unwrap();
            start..start + usize::try_from(extent.bytes()).unwrap()
        };
        for round in &rounds {
            for (tag, (extent, is_write)) in (0u64..).zip(&round.extents) {
                let op = if *is_write {
                    let data = pattern(extent, round.salt);
                    model[place(extent)].copy_from_slice(data.bytes());
                    Op::Write { extent: *extent, data, durability: Volatile }
                } else {
                    Op::Read { extent: *extent }
                };
                rig.submit(tag, op);
            }
            rig.settle();
            for (tag, (extent, is_write)) in (0u64..).zip(&round.extents) {
                let expected = if *is_write {
                    Reply::Done
                } else {
                    Reply::Data(Buffer::copy_of(&model[place(extent)]))
                };
                prop_assert_eq!(rig.done.remove(&tag), Some(Ok(expected)));
            }
        }
        prop_assert!(rig.disk.bytes == model);
        prop_assert!(rig.session.is_live());
    }
}
