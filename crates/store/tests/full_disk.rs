//! A full disk refuses writes, loses none, and is forgotten once there is room again.
//!
//! The disk is a tmpfs of 2 MiB in a mount namespace of its own, in which this test binary is
//! started again with `HOLDFAST_SMALL_DISK` set.
#![cfg(test)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use ports::{Store, StoreError, Txn, TxnOutcome, Write};
use store::embedded::Embedded;

const FOLDER: &str = "HOLDFAST_SMALL_DISK";

async fn put(store: &Embedded, number: u32) -> Result<(), StoreError> {
    let write =
        Write::Put { key: format!("k/{number:04}"), value: vec![b'x'; 20_000], lease: None };
    let outcome = store.commit(&Txn { compares: vec![], writes: vec![write] }).await?;
    assert!(matches!(outcome, TxnOutcome::Committed { .. }), "{outcome:?}");
    Ok(())
}

async fn fill(folder: &Path) {
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![0; 500_000]).unwrap();
    let store = Embedded::open(&folder.join("store")).unwrap();
    let mut written = 0;
    let full = loop {
        match put(&store, written).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    let StoreError::Unavailable { reason } = &full else { panic!("{full}") };
    assert!(reason.contains("No space left"), "{reason}");
    assert!(written > 20, "{written}");
    put(&store, written).await.unwrap_err();
    let page = store.list("k/", None, 500, None).await.unwrap();
    assert_eq!(page.entries.len(), usize::try_from(written).unwrap(), "reads go on");

    fs::remove_file(ballast).unwrap();
    put(&store, written).await.unwrap();
    drop(store);
    let store = Embedded::open(&folder.join("store")).unwrap();
    assert_eq!(store.opening().repairs, []);
    assert_eq!(store.opening().entries, usize::try_from(written + 1).unwrap());
    println!("{written} writes, a full disk, and one more");
}

#[tokio::test]
async fn a_full_disk_costs_only_the_writes_that_it_refused() {
    if let Some(folder) = env::var_os(FOLDER) {
        fill(&PathBuf::from(folder)).await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = r#"mount -t tmpfs -o size=2m tmpfs "$1" && exec "$2" --nocapture"#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"])
        .arg(folder.path())
        .arg(env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !told.contains("running 1 test") {
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{complaint}");
        println!("SKIPPED: full disk: no mount namespace of our own: {complaint}");
        return;
    }
    println!("{told}");
    assert!(output.status.success(), "{told}{complaint}");
}
