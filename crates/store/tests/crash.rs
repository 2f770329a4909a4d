//! A writer is killed again and again, and nothing that it acknowledged is ever lost.
//!
//! The writer is this test binary, started again with `HOLDFAST_CRASH_FOLDER` set. It prints every
//! acknowledged write to a pipe; a kill loses what was not printed, never what was.
//! `HOLDFAST_KILLS` and `HOLDFAST_SEED` change the number of kills and when they come.
#![cfg(test)]

use core::time::Duration;
use std::{
    collections::BTreeMap,
    env,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use ports::{Change, Compare, Expect, Revision, Store, Txn, TxnOutcome, Watch, Write};
use store::{
    embedded::{Embedded, Repair, Settings},
    memory::Bounds,
};
use tokio::task::JoinSet;

const FOLDER: &str = "HOLDFAST_CRASH_FOLDER";
const WRITERS: u64 = 6;

/// Small bounds, so that kills also meet rewrites and compactions.
fn open(folder: &Path) -> Embedded {
    let history = Bounds { changes: 400, bytes: 1 << 18 };
    let settings = Settings { history, rewrite_slack_bytes: 64 * 1024 };
    Embedded::open_with(folder, settings).unwrap()
}

/// A value that shows which write it came from, from its first to its last byte.
fn value(writer: u64, count: u64) -> Vec<u8> {
    let length = usize::try_from(16 + (writer * 7919 + count * 104_729) % 3000).unwrap();
    format!("{writer}:{count};").into_bytes().into_iter().cycle().take(length).collect()
}

fn count_of(value: &[u8]) -> u64 {
    let text = String::from_utf8(value.to_vec()).unwrap();
    text.split_once(';').unwrap().0.split_once(':').unwrap().1.parse().unwrap()
}

/// One writer counts up in two keys at once, by compare-and-swap.
async fn count_up(store: Embedded, writer: u64) {
    let keys = [format!("left/{writer}"), format!("right/{writer}")];
    let found = store.read(&keys).await.unwrap().0;
    let mut count = found.first().map_or(0, |entry| count_of(&entry.value));
    let mut expect = found.first().map_or(Expect::Absent, |e| Expect::ModifiedAt(e.modified));
    loop {
        count += 1;
        let compares =
            keys.iter().map(|key| Compare { key: key.clone(), expect }).collect::<Vec<_>>();
        let put = |key: &String| {
            let (key, value) = (key.clone(), value(writer, count));
            Write::Put { key, value, lease: None }
        };
        let txn = Txn { compares, writes: keys.iter().map(put).collect() };
        match store.commit(&txn).await.unwrap() {
            TxnOutcome::Committed { revision } => {
                println!("acknowledged {writer} {count} {revision}");
                expect = Expect::ModifiedAt(revision);
            }
            refused @ TxnOutcome::Refused { .. } => panic!("{refused:?}"),
        }
    }
}

/// Not a test of its own: the writer that the other test kills.
#[tokio::test]
async fn killed_writer() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let store = open(&PathBuf::from(folder));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(count_up(store.clone(), writer));
    }
    writers.join_all().await;
}

/// What the writers acknowledged before a kill that came after `patience`.
fn run_and_kill(folder: &Path, patience: Duration) -> Vec<(u64, u64, Revision)> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed_writer", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    // This wait is the fault itself, a kill at a random time; nothing is synchronised by it.
    thread::sleep(patience);
    child.kill().unwrap();
    child.wait().unwrap();
    let text = reader.join().unwrap();
    let whole_lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole_lines.lines().filter_map(acknowledged).collect()
}

fn acknowledged(line: &str) -> Option<(u64, u64, Revision)> {
    // The test harness prints its own words before the first of ours.
    let (_, numbers) = line.split_once("acknowledged ")?;
    let mut numbers = numbers.split(' ').map(|number| number.parse::<u64>().unwrap());
    Some((numbers.next()?, numbers.next()?, Revision(numbers.next()?)))
}

/// What must be true of the store after a kill.
async fn check(store: &Embedded, before: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let page = store.list("", None, 500, None).await.unwrap();
    let mut counts = BTreeMap::new();
    for left in page.entries.iter().filter(|entry| entry.key.starts_with("left/")) {
        let writer: u64 = left.key["left/".len()..].parse().unwrap();
        let count = count_of(&left.value);
        let right_key = format!("right/{writer}");
        let right = page.entries.iter().find(|entry| entry.key == right_key).unwrap();
        assert_eq!(left.value, value(writer, count), "no value is torn");
        assert_eq!(right.value, left.value, "no transaction is torn");
        assert_eq!(right.modified, left.modified);
        counts.insert(writer, count);
    }
    for (writer, acknowledged) in before {
        let count = counts.get(writer).copied().unwrap_or(0);
        assert!(count >= *acknowledged, "writer {writer} lost {acknowledged}: it is at {count}");
    }
    check_history(store, &page.entries, page.revision).await;
    counts
}

/// The history has no gap, and leads to the entries.
async fn check_history(store: &Embedded, entries: &[ports::Entry], newest: Revision) {
    let oldest = store.opening().oldest;
    let mut watch = store.watch("", oldest).await.unwrap();
    let mut last_count = BTreeMap::new();
    for revision in oldest.0..=newest.0 {
        let event = watch.next().await.unwrap();
        assert_eq!(event.revision, Revision(revision), "no revision is missing");
        for change in event.changes {
            let Change::Put(entry) = change else { panic!("nothing is deleted here") };
            let count = count_of(&entry.value);
            if let Some(last) = last_count.insert(entry.key.clone(), (count, entry.modified)) {
                assert_eq!(count, last.0 + 1, "no write of {} is missing", entry.key);
            }
        }
    }
    for (key, (_, modified)) in last_count {
        let entry = entries.iter().find(|entry| entry.key == key).unwrap();
        assert_eq!(entry.modified, modified, "history leads to what is there");
    }
}

fn number_from(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// ST-1, ST-3: a kill at any time loses no acknowledged write and tears no transaction.
#[tokio::test]
async fn no_acknowledged_write_is_lost_to_a_kill() {
    if env::var_os(FOLDER).is_some() {
        return;
    }
    let (kills, seed) = (number_from("HOLDFAST_KILLS", 200), number_from("HOLDFAST_SEED", 1));
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut random = seed;
    let mut counts = BTreeMap::new();
    let (mut writes, mut cuts) = (0, 0);
    for _ in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Up to 150 ms: from before the store is open to some dozen syncs and rewrites later.
        let told = run_and_kill(folder.path(), Duration::from_micros((random >> 33) % 150_000));
        writes += told.len();
        for (writer, count, _) in told {
            counts.insert(writer, count);
        }
        let store = open(folder.path());
        let is_cut = |repair: &Repair| matches!(repair, Repair::CutTail { .. });
        cuts += store.opening().repairs.iter().filter(|repair| is_cut(repair)).count();
        counts = check(&store, &counts).await;
    }
    println!(
        "{kills} kills (seed {seed}): {writes} acknowledged writes, all there; \
         {cuts} unfinished ones cut off; {:?}",
        started.elapsed()
    );
    assert!(writes > 0, "the kills came before any write");
}
