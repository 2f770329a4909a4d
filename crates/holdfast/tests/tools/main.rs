//! The data plane as its users meet it: the real binary, killed, and other people's tools on it.
//!
//! Not among the tests that `cargo test` runs unasked: it needs fio, qemu-img, nbdfuse and root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod ext4;
mod rig;

use std::{
    fs,
    process::{Command, Stdio},
};

use rig::{Place, Running, SIZE, succeed};

#[test]
fn fio_finds_every_block_that_it_wrote_through_nbd() {
    let place = Place::new();
    let target = place.serve();
    let nbd = place.nbd(&target.word);
    let uri = format!("--uri={}", nbd.word);
    succeed(Command::new("fio").current_dir(place.folder.path()).args([
        "--name=v",
        "--ioengine=nbd",
        &uri,
        "--rw=randrw",
        "--bsrange=512-16k",
        "--bs_unaligned=1",
        "--iodepth=16",
        "--size=32M",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--fsync=64",
    ]));
}

#[test]
fn qemu_img_gets_back_the_bytes_that_it_copied_in() {
    let place = Place::new();
    let target = place.serve();
    let nbd = place.nbd(&target.word);
    let mut image = vec![0; usize::try_from(SIZE).unwrap()];
    // Data, holes, and an end that is not a round number.
    for (at, byte) in image.iter_mut().enumerate().take(50_000_001) {
        *byte = if (at >> 20) % 5 == 4 {
            0
        } else {
            (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]
        };
    }
    fs::write(place.path("in.raw"), &image).unwrap();
    let (from, to) = (place.path("in.raw"), place.path("out.raw"));
    let convert = ["convert", "-f", "raw", "-O", "raw"];
    succeed(Command::new("qemu-img").args(convert).arg("-n").arg(&from).arg(&nbd.word));
    succeed(Command::new("qemu-img").args(convert).arg(&nbd.word).arg(&to));
    assert!(fs::read(&to).unwrap() == image, "the bytes differ");
}

#[test]
fn no_acknowledged_write_is_lost_when_the_target_is_killed() {
    let place = Place::new();
    let mut target = place.serve();
    let uri = target.word.clone();
    succeed(&mut place.disk(&["fill", &uri, "--ledger", "ledger"]));
    let args = ["verify", &uri, "--ledger", "ledger", "--seconds", "8", "--no-check", "-o", "json"];
    let workload = place.disk(&args).stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..3 {
        // Passes time, and shows that the target serves.
        succeed(&mut place.disk(&["bench", &uri, "--read", "--seconds", "1", "--depth", "2"]));
        target.kill();
        target = place.serve();
    }
    let done = workload.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{told}");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["path_changes"].as_u64().unwrap() > 0, "it never noticed: {told}");
    assert!(told["writes"].as_u64().unwrap() > 0, "{told}");
    succeed(&mut place.disk(&["verify", &uri, "--ledger", "ledger", "--seconds", "0"]));
}

/// The ledger's judgement is worth something only if it can be bad.
#[test]
fn verify_names_the_block_that_somebody_else_wrote() {
    let place = Place::new();
    let target = place.serve();
    succeed(&mut place.disk(&["fill", &target.word, "--ledger", "ledger"]));
    let write = ["bench", &target.word, "--write", "--seconds", "1", "--depth", "1"];
    succeed(&mut place.disk(&write));
    let mut check = place.disk(&["verify", &target.word, "--ledger", "ledger", "--seconds", "0"]);
    let done = check.output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stdout).contains("WRONG: block "));
}

#[test]
fn nbd_ends_with_its_last_client_or_by_a_signal_and_leaves_no_socket() {
    let place = Place::new();
    let target = place.serve();
    let socket = place.path("nbd");
    let args = ["disk", "nbd", &target.word, "--listen", socket.to_str().unwrap(), "--once"];
    let mut once = Running::start(place.folder.path(), &args, "nbd");
    succeed(Command::new("qemu-img").args(["info", &once.word]));
    assert!(once.ended().success());
    assert!(!socket.exists());
    let mut nbd = place.nbd(&target.word);
    succeed(Command::new("kill").args(["-INT", &nbd.id().to_string()]));
    assert!(nbd.ended().success());
    assert!(!socket.exists());
}
