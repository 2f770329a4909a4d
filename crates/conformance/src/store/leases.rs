//! Leases: how long they live, and what goes with them.

use core::time::Duration;

use ports::{
    Change, Expect, Kept, LeaseId, LeaseRequest, Store, StoreError, Txn, TxnOutcome, WatchEvent,
};

use super::{compare, delete, get, keys, list_all, next, put, put_leased, write};

/// etcd's shortest: it makes every lease at least 2 s long.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_mins(10);

async fn grant<S: Store>(store: &S, ttl: Duration) -> LeaseId {
    let Kept { lease, ttl: granted } = store.lease(LeaseRequest::Grant { ttl }).await.unwrap();
    assert!(granted >= ttl, "{granted:?} for {ttl:?}");
    lease
}

fn deleted_keys(event: &WatchEvent) -> Vec<&str> {
    let keys = event.changes.iter().map(|change| match change {
        Change::Deleted { key, modified } if *modified == event.revision => key.as_str(),
        _ => panic!("{event:?}"),
    });
    keys.collect()
}

pub(super) async fn a_lease_that_is_over_takes_its_keys_at_one_revision<S: Store>(store: S) {
    let lease = grant(&store, SHORT).await;
    let writes = vec![put_leased("a", lease), put_leased("b", lease), put("c", "")];
    let at = write(&store, writes).await;
    assert_eq!(get(&store, "a").await.unwrap().lease, Some(lease));
    let mut watch = store.watch("", at.next()).await.unwrap();
    let event = next(&mut watch).await;
    assert_eq!(deleted_keys(&event), ["a", "b"]);
    assert_eq!(keys(&list_all(&store, "", 10, None).await.0), ["c"]);
}

/// A lease that is renewed outlives one of the same age that is not.
pub(super) async fn a_renewed_lease_lives_on<S: Store>(store: S) {
    let renewed = grant(&store, SHORT).await;
    let left_alone = grant(&store, SHORT).await;
    let writes = vec![put_leased("renewed", renewed), put_leased("left", left_alone)];
    let at = write(&store, writes).await;
    let mut watch = store.watch("", at.next()).await.unwrap();
    let mut pulse = tokio::time::interval(SHORT / 8);
    let event = loop {
        tokio::select! {
            event = next(&mut watch) => break event,
            _ = pulse.tick() => {}
        }
        let kept = store.lease(LeaseRequest::Renew { lease: renewed }).await.unwrap();
        assert_eq!(kept.lease, renewed);
        assert!(kept.ttl >= SHORT);
    };
    assert_eq!(deleted_keys(&event), ["left"]);
    assert!(get(&store, "renewed").await.is_some());
}

pub(super) async fn a_revoked_lease_takes_its_keys_at_once<S: Store>(store: S) {
    let lease = grant(&store, LONG).await;
    let at = write(&store, vec![put_leased("b", lease), put_leased("a", lease)]).await;
    let mut watch = store.watch("", at.next()).await.unwrap();
    let revoked = store.lease(LeaseRequest::Revoke { lease }).await.unwrap();
    assert_eq!(revoked, Kept { lease, ttl: Duration::ZERO });
    assert_eq!(list_all(&store, "", 10, None).await.0, []);
    assert_eq!(deleted_keys(&next(&mut watch).await), ["a", "b"]);
}

pub(super) async fn an_ended_lease_is_told<S: Store>(store: S) {
    let lease = grant(&store, LONG).await;
    store.lease(LeaseRequest::Revoke { lease }).await.unwrap();
    let ended = StoreError::LeaseEnded { lease };
    for request in [LeaseRequest::Renew { lease }, LeaseRequest::Revoke { lease }] {
        assert_eq!(store.lease(request).await.unwrap_err(), ended);
    }
    let txn = Txn { compares: vec![], writes: vec![put("a", ""), put_leased("b", lease)] };
    assert_eq!(store.commit(&txn).await.unwrap_err(), ended);
    assert_eq!(list_all(&store, "", 10, None).await.0, [], "nothing was written");
}

pub(super) async fn a_key_written_without_its_lease_stays<S: Store>(store: S) {
    let (first, second) = (grant(&store, LONG).await, grant(&store, LONG).await);
    let leased = |key| put_leased(key, first);
    write(&store, vec![leased("freed"), leased("moved"), leased("deleted"), leased("kept")]).await;
    write(&store, vec![put("freed", ""), put_leased("moved", second), delete("deleted")]).await;
    write(&store, vec![put("deleted", "")]).await;
    store.lease(LeaseRequest::Revoke { lease: first }).await.unwrap();
    assert_eq!(keys(&list_all(&store, "", 10, None).await.0), ["deleted", "freed", "moved"]);
    assert_eq!(get(&store, "moved").await.unwrap().lease, Some(second));
}

/// ST-4: a stale leader's writes are refused by the store, also after another one took over.
pub(super) async fn a_leader_that_lost_its_lease_is_refused<S: Store>(store: S) {
    let lease = grant(&store, SHORT).await;
    let campaign = |lease| Txn {
        compares: vec![compare("leader", Expect::Absent)],
        writes: vec![put_leased("leader", lease)],
    };
    let outcome = store.commit(&campaign(lease)).await.unwrap();
    let TxnOutcome::Committed { revision: elected } = outcome else { panic!("{outcome:?}") };
    let guarded = Txn {
        compares: vec![compare("leader", Expect::CreatedAt(elected))],
        writes: vec![put("volume", "mine")],
    };
    let outcome = store.commit(&guarded).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Committed { .. }), "{outcome:?}");

    let mut watch = store.watch("leader", elected.next()).await.unwrap();
    assert_eq!(deleted_keys(&next(&mut watch).await), ["leader"]);
    let outcome = store.commit(&guarded).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Refused { found: None, .. }), "{outcome:?}");

    let successor = grant(&store, LONG).await;
    store.commit(&campaign(successor)).await.unwrap();
    let outcome = store.commit(&guarded).await.unwrap();
    let TxnOutcome::Refused { key, found: Some(leader), .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((key.as_str(), leader.lease), ("leader", Some(successor)));
}

pub(super) async fn two_leases_have_two_ids<S: Store>(store: S) {
    let first = grant(&store, LONG).await;
    store.lease(LeaseRequest::Revoke { lease: first }).await.unwrap();
    let second = grant(&store, LONG).await;
    assert_ne!(first, second);
}

pub(super) async fn a_lease_of_no_time_is_refused<S: Store>(store: S) {
    for ttl in [Duration::ZERO, Duration::MAX] {
        let refused = store.lease(LeaseRequest::Grant { ttl }).await.unwrap_err();
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused}");
    }
}
