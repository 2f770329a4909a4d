//! The judge judged: each promise broken on paper, and kept.

use std::collections::{BTreeMap, BTreeSet};

use model::{Bytes, Epoch, Key, Membership, NodeId, ReplicaId, Roster, VolumeId};

use super::*;

/// A store and disks written down by hand.
#[derive(Default)]
struct Paper {
    record: Option<Membership>,
    copies: BTreeMap<ReplicaId, ReplicaDisk>,
    serving: Vec<(NodeId, Epoch, BTreeSet<ReplicaId>)>,
    buried: BTreeSet<Key>,
    exists: bool,
    was_deleted: bool,
    set_back: bool,
    out_of_reach: BTreeSet<NodeId>,
}

impl Copies for Paper {
    fn copy(&self, replica: ReplicaId) -> Option<&ReplicaDisk> {
        self.copies.get(&replica)
    }
}

impl Truth for Paper {
    fn membership(&self, _: VolumeId) -> Option<&Membership> {
        self.record.as_ref()
    }
    fn volume_exists(&self, _: VolumeId) -> bool {
        self.exists
    }
    fn volume_was_deleted(&self, _: VolumeId) -> bool {
        self.was_deleted
    }
    fn was_buried(&self, tombstone: &Key) -> bool {
        self.buried.contains(tombstone)
    }
    fn is_set_back(&self, _: VolumeId) -> bool {
        self.set_back
    }
    fn copies(&self) -> &dyn Copies {
        self
    }
    fn serving(&self, _: VolumeId) -> Vec<(NodeId, Epoch, BTreeSet<ReplicaId>)> {
        self.serving.clone()
    }
    fn is_out_of_reach(&self, node: NodeId) -> bool {
        self.out_of_reach.contains(&node)
    }
}

fn copy(epoch: u64, value: u64) -> ReplicaDisk {
    ReplicaDisk {
        volume: names::volume("v"),
        size: Bytes::gib(1),
        thin: false,
        epoch: Epoch(epoch),
        roster: Roster::ZERO,
        members: BTreeMap::new(),
        birth: None,
        blocks: [value; BLOCKS],
        snapshots: BTreeMap::new(),
    }
}

fn two_copies(one: ReplicaDisk, other: ReplicaDisk) -> Paper {
    let (a, b) = (names::replica("a"), names::replica("b"));
    Paper {
        record: Some(Membership::founded(names::volume("v"), [a, b])),
        copies: BTreeMap::from([(a, one), (b, other)]),
        exists: true,
        ..Paper::default()
    }
}

fn judged(mut oracle: Oracle, paper: &Paper) -> Vec<String> {
    oracle.touched.insert(names::volume("v"));
    oracle.judge(paper);
    oracle.broken.into_iter().map(|broken| broken.promise).collect()
}

/// One write to block 0 that was acknowledged.
fn after_one_write() -> Oracle {
    let mut oracle = Oracle::new();
    let value = oracle.issue(names::volume("v"), 0);
    oracle.acked(crate::START, names::volume("v"), Epoch(1), 0, value);
    oracle
}

#[test]
fn a_healthy_copy_without_an_acknowledged_write_is_noticed() {
    let whole = || ReplicaDisk { blocks: [1, 0, 0, 0], ..copy(1, 0) };
    assert_eq!(judged(after_one_write(), &two_copies(whole(), whole())), [""; 0]);
    let mut lacking = two_copies(whole(), copy(1, 0));
    let promise = "healthy-copies-hold-every-acknowledged-write";
    assert_eq!(judged(after_one_write(), &lacking), [promise]);
    lacking.set_back = true;
    assert_eq!(judged(after_one_write(), &lacking), [""; 0], "the store forgot who is healthy");
    lacking.set_back = false;
    let record = lacking.record.as_mut().unwrap();
    record.resync_source = Some(names::replica("a"));
    assert_eq!(judged(after_one_write(), &lacking), [""; 0], "only the source counts");
}

#[test]
fn a_value_of_another_block_is_noticed() {
    let foreign = two_copies(copy(1, 1), copy(1, 1));
    assert_eq!(judged(after_one_write(), &foreign).len(), 6, "three blocks of two copies");
}

#[test]
fn two_targets_that_can_acknowledge_are_noticed() {
    let mut paper = two_copies(copy(1, 0), copy(1, 0));
    let both = BTreeSet::from([names::replica("a"), names::replica("b")]);
    paper.serving = vec![
        (names::node("n1"), Epoch(1), both.clone()),
        (names::node("n2"), Epoch(2), BTreeSet::from([names::replica("b")])),
    ];
    assert_eq!(judged(Oracle::new(), &paper), ["one-target-acknowledges"]);
    paper.copies.insert(names::replica("b"), copy(2, 0));
    assert_eq!(judged(Oracle::new(), &paper), [""; 0], "a copy refuses the old one");
}

#[test]
fn a_read_may_be_newer_but_never_older_than_what_was_acknowledged() {
    let volume = names::volume("v");
    let mut oracle = after_one_write();
    let newer = oracle.issue(volume, 0);
    let floor = oracle.floor(volume, 0);
    oracle.read(volume, 0, floor, newer, names::host("h1"));
    oracle.read(volume, 0, floor, floor, names::host("h1"));
    assert_eq!(oracle.broken, []);
    oracle.read(volume, 0, floor, 0, names::host("h1"));
    oracle.read(volume, 1, 0, newer, names::host("h1"));
    let promises: Vec<_> = oracle.broken.iter().map(|broken| broken.promise.as_str()).collect();
    assert_eq!(promises, ["stale-read", "foreign-read"]);
}

#[test]
fn data_goes_only_for_a_tombstone_and_only_when_it_does_not_count() {
    let (node, pool) = (names::node("n1"), names::pool("p1"));
    let (replica, held) = (names::replica("a"), copy(1, 0));
    let gone = |paper: &Paper| {
        let mut oracle = Oracle::new();
        oracle.destroyed(node, replica, pool, &held);
        judged(oracle, paper)
    };
    let mut paper = two_copies(copy(1, 0), copy(1, 0));
    let (unburied, healthy) =
        ("no-destruction-without-tombstone", "no-destruction-of-healthy-copies");
    assert_eq!(gone(&paper), [unburied, healthy]);
    paper.buried.insert(Key::Tombstone(node, model::Buried::Replica { replica, pool }));
    assert_eq!(gone(&paper), [healthy]);
    paper.record.as_mut().unwrap().children.insert(replica, false);
    assert_eq!(gone(&paper), [""; 0]);
    (paper.exists, paper.record) = (false, None);
    assert_eq!(gone(&paper), ["no-destruction-without-deletion"]);
    paper.was_deleted = true;
    assert_eq!(gone(&paper), [""; 0]);
}

#[test]
fn ids_of_copies_are_never_used_again() {
    let mut oracle = Oracle::new();
    let (replica, volume) = (names::replica("a"), names::volume("v"));
    oracle.made(replica, names::pool("p1"), volume);
    oracle.made(replica, names::pool("p2"), volume);
    assert_eq!(oracle.broken[0].promise, "ids-are-never-reused");
}

/// OP-1: after a promotion older data is what was asked for, until something new is acknowledged.
#[test]
fn accepted_loss_lowers_what_may_be_read() {
    let volume = names::volume("v");
    let mut oracle = after_one_write();
    oracle.promotions(volume, 1, Epoch(3));
    oracle.read(volume, 0, oracle.floor(volume, 0), 0, names::host("h1"));
    assert_eq!(oracle.broken, []);
    let next = oracle.issue(volume, 0);
    oracle.acked(crate::START, volume, Epoch(2), 0, next);
    oracle.read(volume, 0, oracle.floor(volume, 0), 0, names::host("h1"));
    assert_eq!(oracle.broken, [], "that target belongs to the history that was given up");
    oracle.acked(crate::START, volume, Epoch(4), 0, next);
    oracle.read(volume, 0, oracle.floor(volume, 0), 0, names::host("h1"));
    assert_eq!(oracle.broken.len(), 1);
}

/// OP-1: a target that nobody reaches may go on beside copies that were given up; one that could be
/// told may not.
#[test]
fn a_target_of_a_history_given_up_is_excused_only_out_of_reach() {
    let given_up = || {
        let mut oracle = Oracle::new();
        oracle.promotions(names::volume("v"), 1, Epoch(2));
        oracle
    };
    let mut paper = two_copies(copy(1, 0), copy(3, 0));
    paper.serving = vec![
        (names::node("n1"), Epoch(1), BTreeSet::from([names::replica("a")])),
        (names::node("n2"), Epoch(3), BTreeSet::from([names::replica("b")])),
    ];
    assert_eq!(judged(given_up(), &paper), ["one-target-acknowledges"]);
    paper.out_of_reach.insert(names::node("n1"));
    assert_eq!(judged(given_up(), &paper), [""; 0]);
    assert_eq!(judged(Oracle::new(), &paper), ["one-target-acknowledges"], "nobody gave it up");
}

#[test]
fn a_read_that_began_before_the_first_write_of_a_clone_may_return_what_it_began_with() {
    let mut oracle = Oracle::new();
    let (origin, clone, host) = (names::volume("v1"), names::volume("v2"), names::host("h1"));
    let frozen = oracle.issue(origin, 0);
    oracle.cloned(clone, [frozen; BLOCKS]);
    let before = oracle.floor(clone, 0);
    let written = oracle.issue(clone, 0);
    oracle.acked(model::Time(1), clone, model::Epoch(1), 0, written);
    oracle.read(clone, 0, before, frozen, host);
    assert!(oracle.broken.is_empty(), "{:?}", oracle.broken);
    oracle.read(clone, 0, oracle.floor(clone, 0), frozen, host);
    assert_eq!(oracle.broken.len(), 1);
}
