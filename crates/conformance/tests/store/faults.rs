//! etcd killed, paused and left without its leader while somebody counts.
//!
//! The counter judges an unknown outcome by what it finds, as the controller must; a follower
//! watches from the first revision on and must see every count once and in order.

use core::time::Duration;
use std::time::Instant;

use conformance::etcd::Member;
use ports::{
    Change, Compare, Expect, LeaseRequest, Revision, Store, StoreError, Txn, TxnOutcome, Watch,
    Write,
};
use store::etcd::{Config, Etcd};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use super::{alone, config, connect, etcd_for};

const COUNTS: u64 = 150;

/// Between two tries while the store is away.
const PAUSE: Duration = Duration::from_millis(50);

fn count_to(count: u64, last: Option<Revision>) -> Txn {
    let expect = last.map_or(Expect::Absent, Expect::ModifiedAt);
    let (key, value) = ("counter".to_owned(), count.to_string().into_bytes());
    Txn {
        compares: vec![Compare { key: key.clone(), expect }],
        writes: vec![Write::Put { key, value, lease: None }],
    }
}

/// Counts up by compare-and-swap, whatever happens to the store, and tells how often it had to ask.
async fn count(store: Etcd) -> (u32, u32) {
    let (mut unknown, mut unavailable) = (0, 0);
    let mut last = None;
    for count in 1..=COUNTS {
        let txn = count_to(count, last);
        last = loop {
            match store.commit(&txn).await {
                Ok(TxnOutcome::Committed { revision }) => break Some(revision),
                // Refused by our own earlier try, whose answer never came.
                Ok(TxnOutcome::Refused { found: Some(found), .. })
                    if found.value == count.to_string().into_bytes() =>
                {
                    assert!(unknown > 0, "only an unknown outcome may turn out to have happened");
                    break Some(found.modified);
                }
                Err(StoreError::Unknown { .. }) => unknown += 1,
                Err(StoreError::Unavailable { .. }) => unavailable += 1,
                other => panic!("{count}: {other:?}"),
            }
            sleep(PAUSE).await;
        };
    }
    (unknown, unavailable)
}

/// Sees every count once and in order, and shows how far it is.
async fn follow(store: Etcd, from: Revision, seen: watch::Sender<u64>) {
    let mut next = from;
    let mut count = 0;
    while count < COUNTS {
        let Ok(mut watch) = store.watch("counter", next).await else {
            sleep(PAUSE).await;
            continue;
        };
        while count < COUNTS {
            let event = match watch.next().await {
                Ok(event) => event,
                Err(StoreError::Unavailable { .. }) => break,
                Err(error) => panic!("{error}"),
            };
            let [Change::Put(entry)] = &event.changes[..] else { panic!("{event:?}") };
            assert_eq!(entry.value, (count + 1).to_string().into_bytes(), "no gap, no repeat");
            count += 1;
            next = event.revision.next();
            seen.send_replace(count);
        }
    }
}

/// Counts and follows while `fault` happens in the middle.
async fn count_through(config: &Config, fault: impl AsyncFnOnce(watch::Receiver<u64>)) {
    let store = Etcd::connect(config).await.unwrap();
    let from = store.read(&[]).await.unwrap().1.next();
    let (seen, mut progress) = watch::channel(0);
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(store.clone(), from, seen));
    let mut counters = JoinSet::new();
    counters.spawn(count(store.clone()));
    progress.wait_for(|count| *count >= COUNTS / 3).await.unwrap();
    fault(progress).await;
    let (unknown, unavailable) = counters.join_all().await[0];
    tasks.join_all().await;
    let (found, _) = store.read(&["counter".to_owned()]).await.unwrap();
    assert_eq!(found[0].value, COUNTS.to_string().into_bytes());
    println!("{COUNTS} counts, none lost: {unknown} unknown, {unavailable} unavailable on the way");
}

/// ST-1: what etcd acknowledged is there after it was killed, and watches go on without a gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_etcd_is_killed() {
    let Some(etcd) = etcd_for("etcd killed") else { return };
    let mut member = alone(&etcd);
    let config = config(&[&member], "killed");
    count_through(&config, async |mut progress| {
        for _ in 0..3 {
            let count = *progress.borrow_and_update();
            member.kill();
            tokio::task::block_in_place(|| member.restart());
            let goal = (count + 10).min(COUNTS);
            progress.wait_for(|count| *count >= goal).await.unwrap();
        }
    })
    .await;
}

/// ST-1: the same when it only hangs, for longer than a request may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_etcd_hangs() {
    let Some(etcd) = etcd_for("etcd paused") else { return };
    let member = alone(&etcd);
    let mut config = config(&[&member], "hanging");
    config.request_timeout = Duration::from_millis(500);
    count_through(&config, async |_| {
        member.pause();
        // The fault itself: nobody answers for this long.
        sleep(3 * config.request_timeout).await;
        member.resume();
    })
    .await;
}

/// ST-1: the same when the leader of three members dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_with_the_leader_of_three_members() {
    let Some(etcd) = etcd_for("etcd leader killed") else { return };
    let mut members = Member::cluster(&etcd, 3, &[]);
    let config = config(&members.iter().collect::<Vec<_>>(), "members");
    count_through(&config, async |_| {
        let leader = members.iter().position(Member::is_leader).expect("a leader");
        members[leader].kill();
    })
    .await;
}

/// A request that was never sent is told from one that was never answered.
#[tokio::test]
async fn unreachable_and_silent_are_told_apart() {
    let Some(etcd) = etcd_for("etcd unreachable") else { return };
    let mut member = alone(&etcd);
    let mut config = config(&[&member], "away");
    config.request_timeout = Duration::from_millis(500);
    let store = Etcd::connect(&config).await.unwrap();
    member.pause();
    let started = Instant::now();
    let silent = store.commit(&count_to(1, None)).await.unwrap_err();
    assert!(matches!(silent, StoreError::Unknown { .. }), "{silent}");
    let silent = store.read(&["counter".to_owned()]).await.unwrap_err();
    assert!(matches!(silent, StoreError::Unavailable { .. }), "{silent}");
    assert!(started.elapsed() < 4 * config.request_timeout, "every request has a deadline");

    member.kill();
    // The first request after the kill may still meet the dying connection.
    let mut refused = store.commit(&count_to(1, None)).await.unwrap_err();
    if matches!(refused, StoreError::Unknown { .. }) {
        refused = store.commit(&count_to(1, None)).await.unwrap_err();
    }
    let StoreError::Unavailable { reason } = &refused else { panic!("{refused}") };
    assert!(reason.contains(&member.endpoint()), "{reason}");
    assert!(reason.to_lowercase().contains("refused"), "{reason}");
    let absent = Etcd::connect(&config).await.unwrap_err();
    assert!(matches!(absent, StoreError::Unavailable { .. }), "{absent}");
}

/// ST-4: a leader whose lease ran out while etcd hung may not write any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_runs_out_while_etcd_hangs() {
    let Some(etcd) = etcd_for("etcd lease") else { return };
    let member = alone(&etcd);
    let store = connect(&member, "lease").await;
    let ttl = Duration::from_secs(2);
    let kept = store.lease(LeaseRequest::Grant { ttl }).await.unwrap();
    let key = "leader".to_owned();
    let campaign = Txn {
        compares: vec![Compare { key: key.clone(), expect: Expect::Absent }],
        writes: vec![Write::Put { key: key.clone(), value: vec![], lease: Some(kept.lease) }],
    };
    let outcome = store.commit(&campaign).await.unwrap();
    let TxnOutcome::Committed { revision: elected } = outcome else { panic!("{outcome:?}") };
    member.pause();
    // The fault itself: the leader cannot renew for longer than its lease lasts.
    sleep(kept.ttl).await;
    member.resume();
    let mut watch = store.watch(&key, elected.next()).await.unwrap();
    let event = watch.next().await.unwrap();
    assert!(matches!(event.changes[..], [Change::Deleted { .. }]), "{event:?}");
    let guarded = Txn {
        compares: vec![Compare { key, expect: Expect::CreatedAt(elected) }],
        writes: vec![Write::Put { key: "volume".to_owned(), value: vec![], lease: None }],
    };
    let outcome = store.commit(&guarded).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Refused { found: None, .. }), "{outcome:?}");
    let renewed = store.lease(LeaseRequest::Renew { lease: kept.lease }).await;
    assert_eq!(renewed, Err(StoreError::LeaseEnded { lease: kept.lease }));
}
