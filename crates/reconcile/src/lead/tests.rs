//! In and out of office.

use model::{Key, Millis, Record, Txn, limits::LEASE_TTL};

use super::*;
use crate::rig::World;

/// ST-4: what a deposed leader still sends is refused by the store.
#[test]
fn every_commit_is_guarded_by_the_leaders_key() {
    let mut world = World::with_node();
    let created = world.reconciler.lead.created().unwrap();
    world.cordon(true);
    let guard = Compare { key: Key::Leader, expect: Expect::CreatedAt(created) };
    assert!(!world.commits.is_empty());
    assert!(world.commits.iter().all(|txn| txn.compares[0] == guard), "{:?}", world.commits);
}

/// ST-4: nobody else leads before the lease ends, and this one not after.
#[test]
fn a_leader_whose_lease_is_not_renewed_resigns_before_it_ends() {
    let mut world = World::leading();
    world.pass(Millis(2 * LEASE_TTL.0));
    assert!(world.reconciler.is_leader(), "renewed in time");
    world.renews = false;
    world.pass(Millis(LEASE_TTL.0 - RENEW_EVERY.0 - 1));
    assert!(world.reconciler.is_leader(), "what was granted last still holds");
    world.pass(Millis(RENEW_EVERY.0 + 1));
    assert!(!world.reconciler.is_leader());
}

#[test]
fn a_leader_that_sees_another_ones_key_resigns() {
    let mut world = World::leading();
    world.write(&Txn { compares: [].into(), writes: [Write::delete(Key::Leader)].into() });
    assert!(!world.reconciler.is_leader());
    let other = Record::Leader(model::InstanceId::from_u128(77));
    world.write(&Txn::default().put_blind(Key::Leader, other));
    world.pass(LEASE_TTL);
    assert!(!world.reconciler.is_leader(), "the key is taken");
}

/// The watch may show a key that was deleted and made anew as one change.
#[test]
fn a_leaders_key_of_another_birth_is_another_ones() {
    let mut world = World::leading();
    let own = world.reconciler.lead.created().unwrap();
    world.reconciler.leader_seen(own);
    assert!(world.reconciler.is_leader());
    world.reconciler.leader_seen(own.next());
    assert!(!world.reconciler.is_leader());
}
