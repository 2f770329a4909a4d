//! Writes, and what they compare.

use ports::{Entry, Expect, Revision, Store, StoreError, Txn, TxnOutcome};

use super::{commits, compare, delete, get, list_all, newest, next, put, write};

pub(super) async fn what_is_put_reads_back<S: Store>(store: S) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let values = [("empty", vec![]), ("binary", every_byte), ("text/ü/🦀", "höher".into())];
    let writes = values.iter().map(|(key, value)| put(key, value)).collect();
    let at = write(&store, writes).await;
    for (key, value) in values {
        let expected = Entry { key: key.to_owned(), value, created: at, modified: at, lease: None };
        assert_eq!(get(&store, key).await, Some(expected));
    }
}

pub(super) async fn revisions_increase_with_every_change<S: Store>(store: S) {
    let mut last = newest(&store).await;
    for number in 0..5 {
        let revision = write(&store, vec![put("k", [number])]).await;
        assert!(revision > last, "{revision} after {last}");
        last = revision;
    }
    let deleted = write(&store, vec![delete("k")]).await;
    assert!(deleted > last);
    assert!(newest(&store).await >= deleted);
}

/// ST-3: a create is refused if somebody else was first.
pub(super) async fn absent_holds_only_for_an_absent_key<S: Store>(store: S) {
    assert!(commits(&store, "k", Expect::Absent).await);
    assert!(!commits(&store, "k", Expect::Absent).await);
    write(&store, vec![delete("k")]).await;
    assert!(commits(&store, "k", Expect::Absent).await);
}

/// ST-3: an update is refused if somebody else has written since it was read.
pub(super) async fn modified_at_holds_only_for_the_last_write<S: Store>(store: S) {
    let first = write(&store, vec![put("k", "1")]).await;
    let second = write(&store, vec![put("k", "2")]).await;
    assert!(!commits(&store, "k", Expect::ModifiedAt(first)).await);
    assert!(commits(&store, "k", Expect::ModifiedAt(second)).await);
    assert!(!commits(&store, "other", Expect::ModifiedAt(second)).await);
}

pub(super) async fn created_at_holds_until_the_key_is_deleted<S: Store>(store: S) {
    let created = write(&store, vec![put("k", "1")]).await;
    let modified = write(&store, vec![put("k", "2")]).await;
    assert!(commits(&store, "k", Expect::CreatedAt(created)).await);
    assert!(!commits(&store, "k", Expect::CreatedAt(modified)).await);
    write(&store, vec![delete("k")]).await;
    assert!(!commits(&store, "k", Expect::CreatedAt(created)).await);
}

pub(super) async fn no_compare_holds_at_revision_zero<S: Store>(store: S) {
    assert!(!commits(&store, "k", Expect::ModifiedAt(Revision::ZERO)).await);
    assert!(!commits(&store, "k", Expect::CreatedAt(Revision::ZERO)).await);
    write(&store, vec![put("k", "1")]).await;
    assert!(!commits(&store, "k", Expect::ModifiedAt(Revision::ZERO)).await);
    assert!(!commits(&store, "k", Expect::CreatedAt(Revision::ZERO)).await);
}

pub(super) async fn a_key_created_again_has_a_new_creation<S: Store>(store: S) {
    let first = write(&store, vec![put("k", "1")]).await;
    let second = write(&store, vec![put("k", "2")]).await;
    let entry = get(&store, "k").await.unwrap();
    assert_eq!((entry.created, entry.modified), (first, second));
    write(&store, vec![delete("k")]).await;
    assert_eq!(get(&store, "k").await, None);
    let again = write(&store, vec![put("k", "3")]).await;
    let entry = get(&store, "k").await.unwrap();
    assert_eq!((entry.created, entry.modified), (again, again));
}

/// ST-3: writes that belong together are one transaction.
pub(super) async fn a_transaction_writes_all_its_keys_at_one_revision<S: Store>(store: S) {
    write(&store, vec![put("gone", "")]).await;
    let mut writes: Vec<_> = (0..50).map(|number| put(&format!("k/{number:02}"), "")).collect();
    writes.push(delete("gone"));
    let at = write(&store, writes).await;
    let (entries, _) = list_all(&store, "k/", 100, Some(at)).await;
    assert_eq!(entries.len(), 50);
    assert!(entries.iter().all(|entry| entry.modified == at && entry.created == at));
    assert_eq!(get(&store, "gone").await, None);
}

/// ST-3: all or nothing.
pub(super) async fn a_refused_transaction_writes_nothing<S: Store>(store: S) {
    let at = write(&store, vec![put("there", "1")]).await;
    let txn = Txn {
        compares: vec![compare("there", Expect::ModifiedAt(at)), compare("there", Expect::Absent)],
        writes: vec![put("new", "2"), delete("there")],
    };
    let outcome = store.commit(&txn).await.unwrap();
    let TxnOutcome::Refused { key, found, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((key.as_str(), found.unwrap().value), ("there", b"1".to_vec()));
    assert_eq!(get(&store, "new").await, None);
    assert_eq!(get(&store, "there").await.unwrap().modified, at);
}

pub(super) async fn a_refusal_names_the_first_compare_that_failed<S: Store>(store: S) {
    let at = write(&store, vec![put("a", "1"), put("c", "1")]).await;
    let refused = |compares| {
        let txn = Txn { compares, writes: vec![put("d", "")] };
        let store = &store;
        async move {
            match store.commit(&txn).await.unwrap() {
                TxnOutcome::Refused { key, found, revision } => (key, found, revision),
                outcome @ TxnOutcome::Committed { .. } => panic!("{outcome:?}"),
            }
        }
    };
    let holds = compare("a", Expect::CreatedAt(at));
    let absent = compare("b", Expect::ModifiedAt(at));
    let present = compare("c", Expect::Absent);
    let (key, found, revision) =
        refused(vec![holds.clone(), absent.clone(), present.clone()]).await;
    assert_eq!((key.as_str(), found), ("b", None));
    assert!(revision >= at);
    let (key, found, _) = refused(vec![holds, present, absent]).await;
    assert_eq!((key.as_str(), found.map(|entry| entry.modified)), ("c", Some(at)));
}

pub(super) async fn an_empty_transaction_changes_nothing<S: Store>(store: S) {
    let at = write(&store, vec![put("k", "")]).await;
    let nothing = write(&store, vec![]).await;
    assert!(nothing >= at);
    assert_eq!(newest(&store).await, nothing);
    let txn = Txn { compares: vec![compare("k", Expect::Absent)], writes: vec![] };
    let outcome = store.commit(&txn).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Refused { .. }), "{outcome:?}");
}

pub(super) async fn deleting_an_absent_key_changes_nothing<S: Store>(store: S) {
    let at = write(&store, vec![put("k", "")]).await;
    let mut watch = store.watch("", at.next()).await.unwrap();
    write(&store, vec![delete("none")]).await;
    let then = write(&store, vec![delete("none"), put("k", "2")]).await;
    let event = next(&mut watch).await;
    assert_eq!(event.revision, then);
    assert_eq!(event.changes.len(), 1, "{event:?}");
}

pub(super) async fn a_key_written_twice_in_one_transaction_is_refused<S: Store>(store: S) {
    for second in [put("k", "2"), delete("k")] {
        let txn = Txn { compares: vec![], writes: vec![put("k", "1"), second] };
        let refused = store.commit(&txn).await.unwrap_err();
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused}");
        assert!(refused.to_string().contains('k'), "{refused}");
    }
    assert_eq!(get(&store, "k").await, None);
}

pub(super) async fn the_largest_transaction_fits<S: Store>(store: S) {
    let key = |number| format!("{number:03}/{}", "k".repeat(900));
    let compares = (0..100).map(|number| compare(&key(number), Expect::Absent)).collect();
    let writes = (0..100).map(|number| put(&key(number), vec![7; 8000])).collect();
    let outcome = store.commit(&Txn { compares, writes }).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Committed { .. }), "{outcome:?}");
    assert_eq!(list_all(&store, "", 30, None).await.0.len(), 100);
}

pub(super) async fn the_largest_value_fits<S: Store>(store: S) {
    let value = vec![7; 1024 * 1024];
    let at = write(&store, vec![put("large", &value)]).await;
    assert_eq!(get(&store, "large").await.unwrap().value, value);
    let mut watch = store.watch("", at).await.unwrap();
    assert_eq!(next(&mut watch).await.revision, at);
}

pub(super) async fn what_is_too_large_is_named<S: Store>(store: S) {
    let refused = async |compares, writes| match store.commit(&Txn { compares, writes }).await {
        Err(StoreError::TooLarge { what, size, limit }) => (what, size, limit),
        other => panic!("{other:?}"),
    };
    let mib = 1024 * 1024;
    let (what, size, limit) = refused(vec![], vec![put("fat", vec![0; mib + 1])]).await;
    assert!(what.contains("fat"), "{what}");
    assert_eq!((size, limit), (mib + 1, mib));
    let (_, size, limit) = refused(vec![], vec![put(&"k".repeat(1025), "")]).await;
    assert_eq!((size, limit), (1025, 1024));
    let many = (0..101).map(|number| put(&format!("{number}"), "")).collect();
    let (_, size, limit) = refused(vec![], many).await;
    assert_eq!((size, limit), (101, 100));
    let many = (0..101).map(|_| compare("k", Expect::Absent)).collect();
    let (_, size, limit) = refused(many, vec![]).await;
    assert_eq!((size, limit), (101, 100));
    let heavy = (0..3).map(|number| put(&format!("{number}"), vec![0; mib / 2])).collect();
    let (_, size, _) = refused(vec![], heavy).await;
    assert!(size > 3 * mib / 2);
    let refused = store.commit(&Txn { compares: vec![], writes: vec![put("", "")] }).await;
    assert!(matches!(refused, Err(StoreError::Invalid { .. })), "{refused:?}");
    assert!(list_all(&store, "", 10, None).await.0.is_empty());
}

/// ST-3: what compare-and-swap is for.
pub(super) async fn counting_from_many_tasks_loses_no_count<S: Store + Clone + 'static>(store: S) {
    const TASKS: u64 = 8;
    const COUNTS: u64 = 10;
    write(&store, vec![put("counter", "0")]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..COUNTS {
                while !count_up(&store).await {}
            }
        });
    }
    tasks.join_all().await;
    let total = get(&store, "counter").await.unwrap().value;
    assert_eq!(String::from_utf8(total).unwrap(), (TASKS * COUNTS).to_string());
}

async fn count_up<S: Store>(store: &S) -> bool {
    let entry = get(store, "counter").await.unwrap();
    let count: u64 = String::from_utf8(entry.value).unwrap().parse().unwrap();
    let txn = Txn {
        compares: vec![compare("counter", Expect::ModifiedAt(entry.modified))],
        writes: vec![put("counter", (count + 1).to_string())],
    };
    matches!(store.commit(&txn).await.unwrap(), TxnOutcome::Committed { .. })
}
