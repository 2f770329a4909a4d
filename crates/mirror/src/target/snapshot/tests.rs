//! What a target reports of the snapshots that it takes.

use alloc::collections::BTreeMap;

use model::AttemptId;

use super::super::rig::{REPLICA, founded, serving};
use crate::{Answer, Fault, Request};

const ATTEMPT: AttemptId = AttemptId::from_u128(7);

#[test]
fn a_snapshot_is_reported_as_taken_when_every_healthy_replica_answered() {
    let mut world = serving(founded(), true);
    world.holds = |request| matches!(request, Request::Snapshot(_));
    world.want_snapshot(ATTEMPT);
    assert_eq!(world.target.seen().taken_snapshots, BTreeMap::new());
    world.answer_held();
    let taken = BTreeMap::from([(ATTEMPT, [REPLICA].into())]);
    assert_eq!(world.target.seen().taken_snapshots, taken);
}

/// LC-4: it is reported as failed, and never as taken.
#[test]
fn a_snapshot_that_is_taken_back_is_not_reported_as_taken() {
    let mut world = serving(founded(), true);
    world.snapshot_answer = Answer::Failed(Fault::NoSpace);
    world.want_snapshot(ATTEMPT);
    let seen = world.target.seen();
    assert_eq!((seen.failed_snapshots, seen.taken_snapshots), ([ATTEMPT].into(), BTreeMap::new()));
}
