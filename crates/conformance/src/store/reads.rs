//! Reads, listings, and how far back they reach.

use ports::{Expect, Key, Revision, Store, StoreError};

use super::{commits, delete, keys, list_all, newest, next, put, write};

pub(super) async fn several_keys_are_read_at_one_revision<S: Store>(store: S) {
    let at = write(&store, vec![put("a", "1"), put("b", "1"), put("c", "1")]).await;
    let wanted = ["c", "none", "a"].map(str::to_owned);
    let (found, revision) = store.read(&wanted).await.unwrap();
    let mut found = keys(&found);
    found.sort();
    assert_eq!(found, ["a", "c"]);
    assert!(revision >= at);
    assert_eq!(store.read(&[]).await.unwrap().0, []);
    let many: Vec<_> = (0..101).map(|number| format!("{number}")).collect();
    let refused = store.read(&many).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { size: 101, limit: 100, .. }), "{refused}");
}

pub(super) async fn a_prefix_ends_at_its_boundary<S: Store>(store: S) {
    let all = ["a", "a/", "a/1", "a/2/x", "a0", "ab", "b/1"];
    write(&store, all.iter().map(|key| put(key, "")).collect()).await;
    assert_eq!(keys(&list_all(&store, "a/", 10, None).await.0), ["a/", "a/1", "a/2/x"]);
    assert_eq!(keys(&list_all(&store, "b", 10, None).await.0), ["b/1"]);
    assert_eq!(keys(&list_all(&store, "c", 10, None).await.0), Vec::<Key>::new());
    assert_eq!(keys(&list_all(&store, "", 2, None).await.0), all);
    let page = store.list("a/", Some("a/1"), 10, None).await.unwrap();
    assert_eq!(keys(&page.entries), ["a/2/x"]);
    let page = store.list("a/", Some("Z"), 10, None).await.unwrap();
    assert_eq!(page.entries.len(), 3, "what lies before the prefix skips nothing");
}

pub(super) async fn keys_are_ordered_by_bytes<S: Store>(store: S) {
    let mut all = ["ä", "Z", "a", "A/b", "A", "0", "a b", "~", "🦀"].map(str::to_owned);
    write(&store, all.iter().map(|key| put(key, "")).collect()).await;
    all.sort();
    assert_eq!(keys(&list_all(&store, "", 4, None).await.0), all);
}

pub(super) async fn pages_join_to_the_whole<S: Store>(store: S) {
    for start in [0, 100] {
        let range = start..start + 100;
        write(&store, range.map(|number| put(&format!("k/{number:03}"), "")).collect()).await;
    }
    let whole: Vec<_> = (0..200).map(|number| format!("k/{number:03}")).collect();
    for limit in [1, 7, 100, 199, 200, 201] {
        assert_eq!(keys(&list_all(&store, "k/", limit, None).await.0), whole, "{limit}");
    }
    let page = store.list("k/", None, 200, None).await.unwrap();
    assert_eq!(page.next, None, "a page that holds all has no next one");
}

pub(super) async fn pages_are_of_one_revision_while_others_write<S>(store: S)
where
    S: Store + Clone + 'static,
{
    // Every transaction writes one number to all keys: a listing at one revision shows one number.
    let all = |number: u32| (0..20).map(move |key| put(&format!("k/{key}"), number.to_string()));
    write(&store, all(0).collect()).await;
    let writer = store.clone();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let mut number = 1;
        while stopped.try_recv().is_err() {
            write(&writer, all(number).collect()).await;
            number += 1;
        }
        number
    });
    let first = newest(&store).await;
    while newest(&store).await.0 < first.0 + 5 {
        let (entries, _) = list_all(&store, "k/", 3, None).await;
        assert_eq!(entries.len(), 20);
        assert!(entries.iter().all(|entry| entry.value == entries[0].value));
    }
    stop.send(()).unwrap();
    tasks.join_all().await;
}

pub(super) async fn a_listing_in_the_past_shows_the_past<S: Store>(store: S) {
    let first = write(&store, vec![put("a", "1"), put("b", "1")]).await;
    let second = write(&store, vec![delete("a"), put("b", "2")]).await;
    let third = write(&store, vec![put("a", "3")]).await;
    let at = async |revision| {
        let (entries, _) = list_all(&store, "", 10, Some(revision)).await;
        let words = entries.iter().map(|entry| {
            format!("{}={}", entry.key, String::from_utf8(entry.value.clone()).unwrap())
        });
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(at(first).await, "a=1 b=1");
    assert_eq!(at(second).await, "b=2");
    assert_eq!(at(third).await, "a=3 b=2");
}

pub(super) async fn a_listing_in_the_future_is_refused<S: Store>(store: S) {
    let at = write(&store, vec![put("k", "")]).await;
    let asked = Revision(at.0 + 1000);
    let refused = store.list("", None, 10, Some(asked)).await.unwrap_err();
    let StoreError::Future { asked: told, newest } = refused else { panic!("{refused}") };
    assert_eq!(told, asked);
    assert!(newest >= at && newest < asked);
}

pub(super) async fn a_listing_below_the_compaction_is_refused<S: Store>(store: S) {
    let first = write(&store, vec![put("k", "1")]).await;
    write(&store, vec![put("k", "2")]).await;
    let third = write(&store, vec![put("k", "3")]).await;
    store.compact(third).await.unwrap();
    let refused = store.list("", None, 10, Some(first)).await.unwrap_err();
    let StoreError::Compacted { oldest } = refused else { panic!("{refused}") };
    assert!(oldest > first && oldest <= third, "{oldest}");
    let refused = store.list("", None, 10, Some(Revision::ZERO)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Compacted { .. }), "{refused}");
    assert_eq!(list_all(&store, "", 10, Some(third)).await.0.len(), 1);
}

pub(super) async fn compaction_keeps_what_is_there<S: Store>(store: S) {
    let created = write(&store, vec![put("old", "1"), put("gone", "1")]).await;
    let modified = write(&store, vec![put("young", "1"), delete("gone")]).await;
    store.compact(modified.next()).await.unwrap();
    let (entries, _) = list_all(&store, "", 10, None).await;
    assert_eq!(keys(&entries), ["old", "young"]);
    assert_eq!((entries[0].created, entries[0].modified), (created, created));
    assert!(commits(&store, "old", Expect::ModifiedAt(created)).await);
}

pub(super) async fn compacting_twice_is_no_error<S: Store>(store: S) {
    write(&store, vec![put("k", "1")]).await;
    let at = write(&store, vec![put("k", "2")]).await;
    store.compact(at).await.unwrap();
    store.compact(at).await.unwrap();
    store.compact(Revision(at.0 - 1)).await.unwrap();
    store.compact(Revision::ZERO).await.unwrap();
}

pub(super) async fn compacting_the_future_is_refused<S: Store>(store: S) {
    let at = write(&store, vec![put("k", "1")]).await;
    let asked = Revision(at.0 + 1000);
    let refused = store.compact(asked).await.unwrap_err();
    assert!(matches!(refused, StoreError::Future { .. }), "{refused}");
    let mut watch = store.watch("", at).await.unwrap();
    assert_eq!(next(&mut watch).await.revision, at, "nothing was forgotten");
}
