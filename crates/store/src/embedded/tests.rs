//! The file through the port: reopening, leases, rewrites, backups. Damage has a module of its own.

use core::time::Duration;
use std::{fs, path::Path, process, time::Instant};

use ports::{
    Change, Entry, Kept, Key, LeaseRequest, Revision, Store, StoreError, Txn, TxnOutcome, Watch,
    WatchEvent, Write,
};
use tempfile::TempDir;

use super::{
    Dumped, Embedded, Repair, Settings, check, dump,
    file::{StoreFile, write_aside},
    load::load,
    restore,
};
use crate::memory::{Bounds, Core, record::Record};

mod damage;
mod property;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn put(key: &str, value: &[u8]) -> Write {
    Write::Put { key: key.to_owned(), value: value.to_vec(), lease: None }
}

async fn write(store: &Embedded, writes: Vec<Write>) -> Revision {
    match store.commit(&Txn { compares: vec![], writes }).await.unwrap() {
        TxnOutcome::Committed { revision } => revision,
        refused @ TxnOutcome::Refused { .. } => panic!("{refused:?}"),
    }
}

/// All that can be asked of a machine: its entries, and its history.
fn all_of(core: &Core) -> (Vec<Entry>, Vec<WatchEvent>, Revision, Vec<Kept>) {
    let entries = core.list("", None, usize::MAX, None).unwrap().entries;
    let events = core.changes("", core.oldest(), usize::MAX).unwrap().events;
    (entries, events, core.revision(), core.base().leases)
}

fn loaded(folder: &Path) -> Core {
    load(&folder.join("store"), Bounds::default()).unwrap().core
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let folder = folder();
    let store = Embedded::open(folder.path()).unwrap();
    let first = write(&store, vec![put("a", b"1"), put("b", &[0, 255])]).await;
    let second = write(&store, vec![put("a", b"2"), Write::Delete { key: "b".to_owned() }]).await;
    drop(store);

    let store = Embedded::open(folder.path()).unwrap();
    assert_eq!(store.opening().repairs, []);
    let page = store.list("", None, 10, None).await.unwrap();
    let entry = Entry {
        key: "a".to_owned(),
        value: b"2".to_vec(),
        created: first,
        modified: second,
        lease: None,
    };
    assert_eq!((page.entries, page.revision), (vec![entry], second));
    let past = store.list("", None, 10, Some(first)).await.unwrap();
    assert_eq!(past.entries.len(), 2);
}

#[tokio::test]
async fn a_watch_resumes_without_a_gap_across_reopening() {
    let folder = folder();
    let store = Embedded::open(folder.path()).unwrap();
    let first = write(&store, vec![put("a", b"1")]).await;
    let mut watch = store.watch("", first).await.unwrap();
    assert_eq!(watch.next().await.unwrap().revision, first);
    let second = write(&store, vec![put("a", b"2")]).await;
    drop(store);
    assert_eq!(watch.next().await.unwrap().revision, second);
    let closed = watch.next().await.unwrap_err();
    assert!(matches!(closed, StoreError::Unavailable { .. }), "{closed}");

    let store = Embedded::open(folder.path()).unwrap();
    let third = write(&store, vec![put("a", b"3")]).await;
    let mut watch = store.watch("", second).await.unwrap();
    assert_eq!(watch.next().await.unwrap().revision, second);
    assert_eq!(watch.next().await.unwrap().revision, third);
}

/// ST-4: where the store is embedded, its lock is the leader's lease.
#[tokio::test]
async fn a_second_opener_is_told_who_holds_the_store() {
    let folder = folder();
    let store = Embedded::open(folder.path()).unwrap();
    let refused = Embedded::open(folder.path()).unwrap_err();
    let reason = refused.to_string();
    assert!(reason.contains(&format!("in use by the process with pid {}", process::id())));
    drop(store);
    Embedded::open(folder.path()).unwrap();
}

#[tokio::test]
async fn leases_survive_reopening_with_their_whole_time() {
    let folder = folder();
    let ttl = Duration::from_hours(1);
    let store = Embedded::open(folder.path()).unwrap();
    let ended = store.lease(LeaseRequest::Grant { ttl }).await.unwrap().lease;
    store.lease(LeaseRequest::Revoke { lease: ended }).await.unwrap();
    let lease = store.lease(LeaseRequest::Grant { ttl }).await.unwrap().lease;
    let bound = Write::Put { key: "k".to_owned(), value: vec![], lease: Some(lease) };
    write(&store, vec![bound]).await;
    drop(store);

    let store = Embedded::open(folder.path()).unwrap();
    let renewed = store.lease(LeaseRequest::Renew { lease }).await;
    assert_eq!(renewed, Ok(Kept { lease, ttl }));
    let next = store.lease(LeaseRequest::Grant { ttl }).await.unwrap().lease;
    assert!(next > lease, "an id is never given twice");
    store.lease(LeaseRequest::Revoke { lease }).await.unwrap();
    assert_eq!(store.read(&["k".to_owned()]).await.unwrap().0, []);
}

#[tokio::test]
async fn a_rewrite_keeps_entries_history_and_leases() {
    let folder = folder();
    let history = Bounds { changes: 20, bytes: 1 << 20 };
    let settings = Settings { history, rewrite_slack_bytes: 4096 };
    let store = Embedded::open_with(folder.path(), settings).unwrap();
    let ttl = Duration::from_hours(1);
    let mut leases = Vec::new();
    for number in 0..5 {
        let lease = store.lease(LeaseRequest::Grant { ttl }).await.unwrap().lease;
        let key = format!("leased/{number}");
        write(&store, vec![Write::Put { key, value: vec![], lease: Some(lease) }]).await;
        leases.push(lease);
    }
    store.lease(LeaseRequest::Revoke { lease: leases[1] }).await.unwrap();
    for number in 0..200 {
        write(&store, vec![put(&format!("k/{}", number % 7), &[7; 500])]).await;
    }
    let shown = all_of(&store.core());
    drop(store);
    let file = fs::metadata(folder.path().join("store")).unwrap().len();
    assert!(file < 60_000, "{file} bytes: it was never rewritten");
    let store = Embedded::open_with(folder.path(), settings).unwrap();
    assert_eq!(all_of(&store.core()), shown);
    assert_eq!(shown.1.len(), 20);
}

#[tokio::test]
async fn a_backup_restores_to_the_same_store() {
    let (folder, other) = (folder(), folder());
    let backup = folder.path().join("backup");
    let store = Embedded::open(folder.path()).unwrap();
    write(&store, vec![put("a", b"1")]).await;
    store.backup(&backup).unwrap();
    let shown = all_of(&store.core());
    write(&store, vec![put("a", b"2")]).await;
    let refused = store.backup(&backup).unwrap_err();
    assert!(refused.to_string().contains("exists already"), "{refused}");

    let report = restore(&backup, other.path()).unwrap();
    assert_eq!((report.entries, report.revision), (1, shown.2));
    assert_eq!(all_of(&loaded(other.path())), shown);
    let refused = restore(&backup, other.path()).unwrap_err();
    assert!(refused.to_string().contains("exists already"), "{refused}");
    let in_use = restore(&backup, folder.path()).unwrap_err();
    assert!(in_use.to_string().contains("in use by"), "{in_use}");
}

#[tokio::test]
async fn a_dump_shows_every_change() {
    let folder = folder();
    let store = Embedded::open(folder.path()).unwrap();
    write(&store, vec![put("a", b"1"), put("b", b"\x00")]).await;
    write(&store, vec![Write::Delete { key: "a".to_owned() }]).await;
    drop(store);
    let lines: Vec<_> =
        dump(folder.path()).unwrap().map(|line| line.unwrap().to_string()).collect();
    let expected = [
        "base at revision 1: 0 entries, 0 leases",
        "revision 2 put a created 2 modified 2 1",
        "revision 2 put b created 2 modified 2 \\x00",
        "revision 3 delete a",
    ];
    assert_eq!(lines, expected);
    let report = check(folder.path()).unwrap();
    assert_eq!((report.records, report.entries, report.revision), (3, 1, Revision(3)));
}

/// A file as a kill leaves it at every point of an append: the append is there or it is not.
#[tokio::test]
async fn an_unacknowledged_tail_is_cut_off_with_a_message() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = Embedded::open(folder.path()).unwrap();
    write(&store, vec![put("a", b"1")]).await;
    drop(store);
    let before = fs::read(&path).unwrap();
    let (mut file, mut core, _) = StoreFile::open(folder.path(), Bounds::default()).unwrap();
    let old = all_of(&core);
    let txn = Txn { compares: vec![], writes: vec![put("a", b"2"), put("b", b"2")] };
    let record: Record = core.decide_commit(&txn).unwrap().1.unwrap();
    let _never_synced = file.append(std::slice::from_ref(&record)).unwrap();
    core.apply(Duration::ZERO, &record);
    let whole = fs::read(&path).unwrap();

    for length in before.len()..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let checked = check(folder.path()).unwrap();
        let expected = if length == whole.len() { all_of(&core) } else { old.clone() };
        assert_eq!(all_of(&loaded(folder.path())), expected, "{length}");
        let cut = matches!(checked.repairs[..], [Repair::CutTail { .. }]);
        assert_eq!(cut, length != before.len() && length != whole.len(), "{length}: {checked}");
        let store = Embedded::open(folder.path()).unwrap();
        assert_eq!(store.opening().repairs, checked.repairs);
        drop(store);
        assert_eq!(check(folder.path()).unwrap().repairs, [], "opening repaired it");
    }
}

/// 10,000 volumes with three records of 2 KB each; the bound is wide, because test builds are
/// slow and machines are shared.
#[test]
fn a_store_of_ten_thousand_volumes_opens_at_once() {
    let folder = folder();
    let mut core = Core::default();
    for number in 0..30_000 {
        let writes = vec![put(&format!("volumes/{number:08}/record"), &[b'x'; 2048])];
        core.commit(&Txn { compares: vec![], writes }).unwrap();
    }
    let path = folder.path().join("store");
    write_aside(&path, 1, &core).unwrap().put_in_place().unwrap();
    let started = Instant::now();
    let store = Embedded::open(folder.path()).unwrap();
    let elapsed = started.elapsed();
    println!("opened {} in {elapsed:?}", store.opening());
    assert_eq!(store.opening().entries, 30_000);
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
}

#[tokio::test]
async fn a_damaged_file_dumps_up_to_the_damage() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = Embedded::open(folder.path()).unwrap();
    for number in 0..10 {
        write(&store, vec![put(&Key::from("k"), &[number; 100])]).await;
    }
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 250;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let lines: Vec<_> = dump(&path).unwrap().collect();
    assert!(matches!(lines[0], Ok(Dumped::Base { .. })));
    let is_put = |line: &Result<Dumped, _>| {
        matches!(line, Ok(Dumped::Changed { change: Change::Put(_), .. }))
    };
    assert_eq!(lines.iter().filter(|line| is_put(line)).count(), 8);
    assert!(matches!(lines.last(), Some(Err(StoreError::Damaged { .. }))));
}
