//! What one disk may do to the others: nothing.

use alloc::{boxed::Box, vec};
use core::time::Duration;

use model::{
    Bytes, Key, Meta, NodePart, PoolHealth, PoolId, ReplicaId, ReplicaItem, Revision, Time, Volume,
    VolumeId, VolumeLayout, VolumePart, VolumeSpec,
};

use super::rig::{Condition, INSTANCE, TestNode, pools};
use crate::LogEvent;

const A: PoolId = PoolId::from_u128(0xa);
const B: PoolId = PoolId::from_u128(0xb);
const BLOCKS: u64 = 64 * 64;

fn both(generation: u64) -> model::NodeConfig {
    pools(generation, &[(A, "/disk/a"), (B, "/disk/b")])
}

fn node() -> TestNode {
    let mut node = TestNode::new(BLOCKS, &["/disk/a", "/disk/b"]);
    let first = node.apply(both(2));
    assert_eq!(node.applied.get(&first), Some(&Ok(Revision(2))));
    node
}

/// RC-1: a hung disk delays itself, not every config of its node.
#[test]
fn a_config_is_answered_while_another_pools_disk_hangs() {
    let mut node = node();
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Hung;
    // It is asked to remember the new generation and does not answer.
    let first = node.apply(both(3));
    assert!(!node.applied.contains_key(&first), "its own work is waited for, for a while");
    node.pass(Duration::from_secs(2));
    assert_eq!(node.applied.get(&first), Some(&Ok(Revision(3))));
    let second = node.apply(both(4));
    assert_eq!(node.applied.get(&second), Some(&Ok(Revision(4))), "that work had its time");
    assert_eq!(node.inventory().pools[&B].mark.unwrap().revision, Revision(4));
}

/// RS-1: what cannot be opened yet is told as such.
#[test]
fn a_disk_that_hangs_at_start_does_not_hold_up_the_inventory_for_ever() {
    let disks = node().disks;
    let mut node = TestNode::on(disks, INSTANCE);
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Hung;
    node.node.look_at(A, "/disk/a".into());
    node.node.look_at(B, "/disk/b".into());
    let asked = node.request_inventory();
    assert!(!node.inventories.contains_key(&asked), "what was found is told from the first on");
    node.pass(Duration::from_secs(6));
    let seen = &node.inventories[&asked];
    assert_eq!(seen.pools[&A].health, PoolHealth::Importing);
    assert_eq!(seen.pools[&B].health, PoolHealth::Online);
}

#[test]
fn a_disk_that_another_process_is_about_to_let_go_is_waited_for() {
    let mut node = TestNode::new(BLOCKS, &["/disk/a"]);
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Busy;
    node.apply(pools(2, &[(A, "/disk/a")]));
    node.pass(Duration::from_secs(1));
    assert_eq!(node.inventory().pools[&A].health, PoolHealth::Importing);
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Fine;
    node.pass(Duration::from_millis(100));
    assert_eq!(node.inventory().pools[&A].health, PoolHealth::Online);
}

#[test]
fn a_disk_that_another_process_keeps_is_refused_with_the_reason_and_found_later() {
    let mut node = TestNode::new(BLOCKS, &["/disk/a"]);
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Busy;
    node.apply(pools(2, &[(A, "/disk/a")]));
    node.pass(Duration::from_secs(10));
    let health = node.inventory().pools[&A].health.clone();
    assert_eq!(health, PoolHealth::Refused { reason: "/disk/a".into() });
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Fine;
    node.pass(Duration::from_secs(20));
    assert_eq!(node.inventory().pools[&A].health, PoolHealth::Online);
}

/// LC-8: nobody has to remember to tell: what differs is told.
#[test]
fn whoever_has_an_inventory_hears_that_it_is_out_of_date() {
    let mut node = node();
    let seen = node.inventory();
    node.pass(Duration::from_secs(30));
    assert!(node.outdated < seen.sequence, "nothing changed, and nothing is told");
    node.disks.get_mut("/disk/a").unwrap().disk.fail_writes(Some(0));
    node.disks.get_mut("/disk/a").unwrap().disk.fail_syncs(true);
    node.apply(both(3));
    assert!(node.outdated >= seen.sequence);
    node.pass(Duration::from_millis(100));
    let seen = node.inventory();
    assert!(matches!(seen.pools[&A].health, PoolHealth::Faulted { .. }), "{:?}", seen.pools[&A]);
    assert_eq!(seen.pools[&B].health, PoolHealth::Online);
}

/// RS-2: whoever comes next finds a clean pool.
#[test]
fn a_node_that_is_told_to_stop_leaves_its_pools_clean() {
    let mut node = node();
    node.node.stop(node.now);
    node.settle();
    assert!(node.is_stopped);
    let mut next = TestNode::on(node.disks, INSTANCE);
    next.node.look_at(A, "/disk/a".into());
    assert_eq!(next.inventory().pools[&A].health, PoolHealth::Online);
    let clean =
        |event: &LogEvent| matches!(event, LogEvent::PoolImported { stop: pool::Stop::Clean, .. });
    assert!(next.log.iter().any(clean), "{:?}", next.log);
}

/// A pool that cannot be read is said to be faulted, in the log and in the inventory.
#[test]
fn a_pool_whose_import_fails_is_logged_with_the_reason() {
    let mut node = TestNode::on(node().disks, INSTANCE);
    // As many reads as there are superblocks.
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::FailsAfter(4);
    node.node.look_at(A, "/disk/a".into());
    node.settle();
    let [LogEvent::PoolFaulted { pool, reason }] = &node.log[..] else { panic!("{:?}", node.log) };
    assert_eq!(*pool, A);
    assert!(reason.contains("error 5"), "{reason}");
    let health = &node.inventory().pools[&A].health;
    assert!(matches!(health, PoolHealth::Faulted { .. }), "{health:?}");
}

/// LC-1: what is told to be there is there after a crash.
#[test]
fn a_replica_is_told_of_only_when_its_creation_is_durable() {
    let (mut node, replica, volume) = (node(), ReplicaId::from_u128(1), VolumeId::from_u128(2));
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Hung;
    let size = Bytes(1 << 20);
    let item = ReplicaItem {
        id: replica,
        pool: A,
        must_exist: false,
        size,
        thin: true,
        origin: None,
        admission: None,
    };
    let carried = Volume {
        meta: Meta::new(volume, "v", Time(1)),
        spec: VolumeSpec { size, replicas: 1, ..VolumeSpec::default() },
        layout: VolumeLayout::default(),
    };
    let (replicas, carried) = (vec![item], Box::new(carried));
    let part = VolumePart { volume, replicas, target: None, needs: [].into(), carried };
    let mut config = both(3);
    config.parts.insert(Key::Volume(volume), Some(NodePart::Volume(part)));
    node.apply(config);
    node.pass(Duration::from_secs(2));
    assert!(!node.inventory().replicas.contains_key(&replica));
    node.disks.get_mut("/disk/a").unwrap().condition = Condition::Fine;
    node.pass(Duration::from_secs(1));
    assert!(node.inventory().replicas.contains_key(&replica));
}
