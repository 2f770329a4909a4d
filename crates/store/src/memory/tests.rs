//! What only the machine shows: its bounds, its leases without a clock. The rest is in the suite.

use core::time::Duration;

use ports::{Change, Compare, Expect, LeaseRequest, Revision, StoreError, Txn, TxnOutcome, Write};

use super::{Bounds, Core};

const SECOND: Duration = Duration::from_secs(1);

fn put(key: &str, value: &str) -> Write {
    Write::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: None }
}

fn delete(key: &str) -> Write {
    Write::Delete { key: key.to_owned() }
}

fn write(core: &mut Core, writes: Vec<Write>) -> Revision {
    match core.commit(&Txn { compares: vec![], writes }).unwrap() {
        TxnOutcome::Committed { revision } => revision,
        refused @ TxnOutcome::Refused { .. } => panic!("{refused:?}"),
    }
}

/// A listing as `key=value` words.
fn listed(core: &Core, prefix: &str, at: Revision) -> String {
    let page = core.list(prefix, None, 100, Some(at)).unwrap();
    let words = page
        .entries
        .iter()
        .map(|entry| format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value)));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_listing_in_the_past_shows_the_past() {
    let mut core = Core::default();
    let first = write(&mut core, vec![put("a/1", "x"), put("a/2", "x"), put("ab", "x")]);
    let second = write(&mut core, vec![delete("a/1"), put("a/2", "y")]);
    let third = write(&mut core, vec![put("a/1", "z"), put("a/3", "z")]);
    assert_eq!(listed(&core, "a/", Revision(1)), "");
    assert_eq!(listed(&core, "a/", first), "a/1=x a/2=x");
    assert_eq!(listed(&core, "a/", second), "a/2=y");
    assert_eq!(listed(&core, "a/", third), "a/1=z a/2=y a/3=z");
}

#[test]
fn pages_of_a_past_listing_join_to_the_whole() {
    let mut core = Core::default();
    for number in 0..20 {
        write(&mut core, vec![put(&format!("k/{number:02}"), "old")]);
    }
    let at = core.revision();
    for number in (0..20).step_by(3) {
        write(&mut core, vec![delete(&format!("k/{number:02}")), put(&format!("k/x{number}"), "")]);
    }
    let mut keys = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = core.list("k/", after.as_deref(), 3, Some(at)).unwrap();
        assert!(page.entries.len() <= 3);
        keys.extend(page.entries.into_iter().map(|entry| entry.key));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let whole: Vec<_> = (0..20).map(|number| format!("k/{number:02}")).collect();
    assert_eq!(keys, whole);
}

#[test]
fn history_beyond_its_bounds_is_forgotten_and_says_so() {
    let mut core = Core::new(Bounds { changes: 3, bytes: 1000 });
    for _ in 0..5 {
        write(&mut core, vec![put("k", "v")]);
    }
    assert_eq!((core.oldest(), core.revision()), (Revision(4), Revision(6)));
    let refused = core.changes("", Revision(3), 10).unwrap_err();
    assert_eq!(refused, StoreError::Compacted { oldest: Revision(4) });
    assert_eq!(core.changes("", Revision(4), 10).unwrap().events.len(), 3);
}

#[test]
fn large_values_shorten_the_history() {
    let mut core = Core::new(Bounds { changes: 100, bytes: 1000 });
    for _ in 0..5 {
        write(&mut core, vec![put("k", &"v".repeat(300))]);
    }
    assert_eq!(core.oldest(), Revision(6));
    write(&mut core, vec![put("k", &"v".repeat(2000))]);
    assert_eq!(core.oldest(), Revision(8), "a step beyond the bound is not kept at all");
    assert_eq!(core.changes("", Revision(8), 10).unwrap().events, []);
}

#[test]
fn a_quiet_watch_does_not_fall_behind() {
    let mut core = Core::new(Bounds { changes: 2, bytes: 1000 });
    let mut from = Revision(2);
    for _ in 0..10 {
        write(&mut core, vec![put("busy", "v")]);
        from = core.changes("quiet/", from, 10).unwrap().next;
    }
    assert_eq!(from, core.revision().next());
}

#[test]
fn a_lease_that_is_over_takes_its_keys_at_one_revision() {
    let mut core = Core::default();
    let lease = core.lease(SECOND, LeaseRequest::Grant { ttl: 2 * SECOND }).unwrap().lease;
    let bound = |key: &str| Write::Put { key: key.to_owned(), value: vec![], lease: Some(lease) };
    write(&mut core, vec![bound("a"), bound("b"), bound("c"), put("d", "")]);
    // A key that is written again without the lease leaves it.
    let before = write(&mut core, vec![put("c", "")]);
    assert_eq!(core.next_expiry(), Some(3 * SECOND));
    assert_eq!(core.advance(2 * SECOND), []);
    assert_eq!(core.advance(3 * SECOND), [lease]);
    let seen = core.changes("", before.next(), 10).unwrap().events;
    let gone = |key: &str| Change::Deleted { key: key.to_owned(), modified: before.next() };
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].changes, [gone("a"), gone("b")]);
    let renewed = core.lease(4 * SECOND, LeaseRequest::Renew { lease });
    assert_eq!(renewed, Err(StoreError::LeaseEnded { lease }));
}

#[test]
fn a_renewed_lease_lives_for_its_whole_time_again() {
    let mut core = Core::default();
    let lease = core.lease(SECOND, LeaseRequest::Grant { ttl: SECOND }).unwrap().lease;
    core.lease(SECOND + SECOND / 2, LeaseRequest::Renew { lease }).unwrap();
    assert_eq!(core.next_expiry(), Some(2 * SECOND + SECOND / 2));
}

#[test]
fn a_clone_is_a_snapshot() {
    let mut core = Core::default();
    write(&mut core, vec![put("k", "old")]);
    let snapshot = core.clone();
    write(&mut core, vec![put("k", "new")]);
    assert_eq!(snapshot.get("k").unwrap().value, b"old");
    assert_eq!(core.get("k").unwrap().value, b"new");
}

/// ST-3: a transaction with a compare that does not hold writes nothing.
#[test]
fn a_refused_transaction_names_the_first_compare_that_failed() {
    let mut core = Core::default();
    let at = write(&mut core, vec![put("a", "1")]);
    let compare = |key: &str, expect| Compare { key: key.to_owned(), expect };
    let txn = Txn {
        compares: vec![
            compare("a", Expect::ModifiedAt(at)),
            compare("b", Expect::CreatedAt(at)),
            compare("a", Expect::Absent),
        ],
        writes: vec![put("c", "1")],
    };
    let outcome = core.commit(&txn).unwrap();
    let refused = TxnOutcome::Refused { key: "b".to_owned(), found: None, revision: at };
    assert_eq!(outcome, refused);
    assert_eq!(core.get("c"), None);
}
