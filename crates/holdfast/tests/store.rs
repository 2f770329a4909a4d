//! The commands that people use at a store, run as they run them.
#![forbid(unsafe_code)]

use std::{
    path::Path,
    process::{Command, Output},
};

use model::{
    Bytes, Key, Membership, Meta, Record, Time, Volume, VolumeId, VolumeLayout, VolumeSpec,
};
use ports::{Store as _, Txn, Write};
use store::embedded::Embedded;

fn holdfast(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(arguments).output();
    output.expect("the binary runs")
}

fn words(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(error))
}

fn put(folder: &Path, records: Vec<(Key, Vec<u8>)>) {
    let store = Embedded::open(folder).expect("a sound folder");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let write =
        |(key, value): (Key, Vec<u8>)| Write::Put { key: key.to_string(), value, lease: None };
    let txn = Txn { compares: vec![], writes: records.into_iter().map(write).collect() };
    runtime.block_on(store.commit(&txn)).expect("the disk takes it");
}

/// A deleting volume without replicas: small, and nothing about it is broken but what a test
/// plants.
fn volume(id: VolumeId) -> Record {
    let spec =
        VolumeSpec { size: Bytes::gib(1), replicas: 1, deleting: true, ..VolumeSpec::default() };
    let meta = Meta::new(id, "v", Time(1));
    Record::Volume(Volume { meta, spec, layout: VolumeLayout::default() }.into())
}

/// OP-4: a backup is a store again, record by record.
#[test]
fn a_store_is_backed_up_and_restored_with_every_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let backup = folder.path().join("backup");
    std::fs::create_dir(&store).expect("a folder");
    put(&store, vec![(Key::Event(1), b"one".to_vec()), (Key::Event(2), b"two".to_vec())]);
    let path = |path: &Path| path.display().to_string();

    let saved = holdfast(&["store", "backup", &path(&store), &path(&backup)]);
    assert!(saved.status.success(), "{}", words(&saved));
    let again = holdfast(&["store", "backup", &path(&store), &path(&backup)]);
    assert!(!again.status.success() && words(&again).contains("exists already"));

    let restored = holdfast(&["store", "restore", &path(&backup), &path(&copy)]);
    assert!(restored.status.success(), "{}", words(&restored));
    let twice = holdfast(&["store", "restore", &path(&backup), &path(&copy)]);
    assert!(!twice.status.success() && words(&twice).contains("move it away"));

    let dump = words(&holdfast(&["store", "dump", &path(&copy)]));
    assert!(dump.contains(&Key::Event(1).to_string()), "{dump}");
    assert!(dump.contains(&Key::Event(2).to_string()), "{dump}");
}

#[test]
fn a_damaged_store_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), vec![(Key::Event(1), vec![7; 4096])]);
    let file = folder.path().join("store");
    let mut bytes = std::fs::read(&file).expect("the store's file");
    let middle = bytes.len() - 2048;
    bytes[middle] ^= 0x40;
    std::fs::write(&file, bytes).expect("it is ours");
    let output = holdfast(&["store", "check", &folder.path().display().to_string()]);
    assert!(!output.status.success());
    let words = words(&output);
    assert!(words.contains("offset") && words.contains("restore a backup"), "{words}");
}

/// ST-8: the doctor names a record that does not decode, and one that breaks a promise.
#[test]
fn the_doctor_finds_what_is_wrong_and_nothing_else() {
    let sound = tempfile::tempdir().expect("a folder");
    put(sound.path(), vec![]);
    let output = holdfast(&["doctor", &sound.path().display().to_string()]);
    assert!(output.status.success(), "{}", words(&output));

    let sick = tempfile::tempdir().expect("a folder");
    let (one, two) = (VolumeId::from_u128(1), VolumeId::from_u128(2));
    let stray = Record::Membership(Membership::founded(two, []).into());
    put(
        sick.path(),
        vec![
            (Key::Volume(one), volume(one).encode()),
            (Key::Membership(two), stray.encode()),
            (Key::Volume(VolumeId::from_u128(3)), b"{".to_vec()),
        ],
    );
    let output = holdfast(&["doctor", &sick.path().display().to_string()]);
    let words = words(&output);
    assert!(!output.status.success());
    assert!(words.contains("quarantined") && words.contains("broken"), "{words}");
}
