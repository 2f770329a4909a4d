//! Watches: everything, in order, once.

use ports::{Change, Entry, Revision, Store, StoreError, WatchEvent};

use super::{delete, list_all, newest, next, put, watch_refused, write};

pub(super) async fn a_watch_from_the_past_tells_the_past<S: Store>(store: S) {
    let first = write(&store, vec![put("k", "1")]).await;
    let second = write(&store, vec![put("k", "2")]).await;
    let third = write(&store, vec![put("k", "3")]).await;
    let mut watch = store.watch("", second).await.unwrap();
    let event = next(&mut watch).await;
    let entry = Entry {
        key: "k".to_owned(),
        value: b"2".to_vec(),
        created: first,
        modified: second,
        lease: None,
    };
    let expected = WatchEvent { revision: second, changes: vec![Change::Put(entry)] };
    assert_eq!(event, expected);
    assert_eq!(next(&mut watch).await.revision, third);
    let mut whole = store.watch("", first).await.unwrap();
    assert_eq!(next(&mut whole).await.revision, first);
}

pub(super) async fn a_watch_from_now_tells_what_follows<S: Store>(store: S) {
    let at = write(&store, vec![put("k", "1")]).await;
    let mut watch = store.watch("", at.next()).await.unwrap();
    for number in 2..5 {
        let revision = write(&store, vec![put("k", [number])]).await;
        assert_eq!(next(&mut watch).await.revision, revision);
    }
}

pub(super) async fn a_watch_may_start_in_the_future<S: Store>(store: S) {
    let at = write(&store, vec![put("k", "1")]).await;
    let mut watch = store.watch("", Revision(at.0 + 3)).await.unwrap();
    let mut told = Vec::new();
    for number in 0..5 {
        let revision = write(&store, vec![put("k", [number])]).await;
        told.extend(Some(revision).filter(|revision| revision.0 >= at.0 + 3));
    }
    for revision in told {
        assert_eq!(next(&mut watch).await.revision, revision);
    }
}

pub(super) async fn a_watch_sees_only_its_prefix<S: Store>(store: S) {
    let at = newest(&store).await;
    let mut watch = store.watch("a/", at.next()).await.unwrap();
    write(&store, vec![put("a", ""), put("ab", ""), put("a0", "")]).await;
    let second = write(&store, vec![put("b", ""), put("a/1", "")]).await;
    let event = next(&mut watch).await;
    assert_eq!(event.revision, second);
    let [Change::Put(entry)] = &event.changes[..] else { panic!("{event:?}") };
    assert_eq!(entry.key, "a/1");
}

pub(super) async fn a_watch_tells_a_transaction_as_one_event<S: Store>(store: S) {
    let at = newest(&store).await;
    let mut watch = store.watch("", at.next()).await.unwrap();
    let first = write(&store, (0..90).map(|number| put(&format!("{number:02}"), "")).collect());
    let first = first.await;
    let second = write(&store, vec![delete("01"), put("02", "2"), delete("03")]).await;
    let event = next(&mut watch).await;
    assert_eq!((event.revision, event.changes.len()), (first, 90));
    let event = next(&mut watch).await;
    assert_eq!((event.revision, event.changes.len()), (second, 3));
}

pub(super) async fn a_watch_tells_deletions<S: Store>(store: S) {
    let at = write(&store, vec![put("k", "1")]).await;
    let mut watch = store.watch("", at.next()).await.unwrap();
    let modified = write(&store, vec![delete("k")]).await;
    let event = next(&mut watch).await;
    let deleted = Change::Deleted { key: "k".to_owned(), modified };
    assert_eq!(event, WatchEvent { revision: modified, changes: vec![deleted] });
}

/// A wait in a `select!` is dropped whenever something else comes first.
pub(super) async fn an_abandoned_wait_loses_no_event<S: Store>(store: S) {
    const WRITES: usize = 50;
    let at = newest(&store).await;
    let mut watch = store.watch("", at.next()).await.unwrap();
    let (mut written, mut seen) = (Vec::new(), Vec::new());
    while seen.len() < WRITES {
        if written.len() < WRITES {
            written.push(write(&store, vec![put("k", "")]).await);
        }
        tokio::select! {
            biased;
            event = next(&mut watch) => seen.push(event.revision),
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(seen, written);
}

/// Several tasks write; a watch from before sees each of their revisions once and in order.
pub(super) async fn no_change_is_missed_or_repeated_while_others_write<S>(store: S)
where
    S: Store + Clone + 'static,
{
    const TASKS: u8 = 6;
    const WRITES: u8 = 30;
    let at = newest(&store).await;
    let mut early = store.watch("w/", at.next()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            let mut revisions = Vec::new();
            for number in 0..WRITES {
                revisions.push(write(&store, vec![put(&format!("w/{task}"), [number])]).await);
            }
            revisions
        });
    }
    let mut seen = Vec::new();
    for _ in 0..u16::from(TASKS) * u16::from(WRITES) {
        seen.push(next(&mut early).await.revision);
    }
    let mut written: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    written.sort();
    assert_eq!(seen, written);
    let mut late = store.watch("w/", at.next()).await.unwrap();
    for revision in written {
        assert_eq!(next(&mut late).await.revision, revision);
    }
}

/// A listing at some revision plus the events after it is the whole, however they interleave.
pub(super) async fn a_listing_and_a_watch_join_without_a_gap<S>(store: S)
where
    S: Store + Clone + 'static,
{
    const WRITES: u32 = 60;
    let writer = store.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        for number in 1..=WRITES {
            write(&writer, vec![put("counter", number.to_string())]).await;
        }
    });
    let count = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap().parse::<u32>().unwrap();
    let mut joined = 0;
    while joined < WRITES {
        let (entries, revision) = list_all(&store, "counter", 10, None).await;
        let mut last = entries.first().map_or(0, |entry| count(&entry.value));
        let mut watch = store.watch("counter", revision.next()).await.unwrap();
        for _ in 0..(WRITES - last).min(5) {
            let event = next(&mut watch).await;
            let [Change::Put(entry)] = &event.changes[..] else { panic!("{event:?}") };
            assert_eq!(count(&entry.value), last + 1);
            last += 1;
        }
        joined = last;
    }
    tasks.join_all().await;
}

pub(super) async fn a_watch_below_the_compaction_is_refused<S: Store>(store: S) {
    let first = write(&store, vec![put("k", "1")]).await;
    let second = write(&store, vec![put("k", "2")]).await;
    let third = write(&store, vec![put("k", "3")]).await;
    store.compact(third).await.unwrap();
    for below in [first, second] {
        let refused = watch_refused(&store, "", below).await;
        let StoreError::Compacted { oldest } = refused else { panic!("{refused}") };
        assert!(oldest > below && oldest <= third, "{oldest}");
    }
    let mut watch = store.watch("", third).await.unwrap();
    assert_eq!(next(&mut watch).await.revision, third);
}

pub(super) async fn a_watch_from_the_compaction_on_misses_no_deletion<S: Store>(store: S) {
    write(&store, vec![put("k", "1")]).await;
    let deleted = write(&store, vec![delete("k")]).await;
    write(&store, vec![put("other", "1")]).await;
    store.compact(deleted).await.unwrap();
    let mut watch = store.watch("k", deleted).await.unwrap();
    let event = next(&mut watch).await;
    assert!(matches!(event.changes[..], [Change::Deleted { .. }]), "{event:?}");
    assert_eq!(event.revision, deleted);
    store.compact(deleted.next()).await.unwrap();
    let refused = watch_refused(&store, "k", deleted).await;
    assert!(matches!(refused, StoreError::Compacted { .. }), "{refused}");
}
