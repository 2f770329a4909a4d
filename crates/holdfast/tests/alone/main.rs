//! The stand-alone target as a process that is killed, without other people's tools.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../tools/rig.rs"]
#[allow(dead_code, reason = "the tools need more of it")]
mod rig;

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use disk::{Client, Options};
use nvme::{
    Code, Op, Reply,
    reservation::{Acquire, Command, Register},
};
use rig::{HOLDFAST, Place, Running};
use uuid::Uuid;

fn host(uri: &str, number: u8) -> Client {
    let options = Options { host_id: Uuid::from_bytes([number; 16]), ..Options::default() };
    Client::connect(&uri.parse().unwrap(), options).unwrap()
}

fn write(host: &mut Client) -> Option<Code> {
    let (extent, data) = (Extent::new(0, 1), Buffer::zeroed(BLOCK));
    let answer = host.run(Op::Write { extent, data, durability: Volatile }).unwrap();
    answer.err().map(|status| status.code)
}

#[test]
fn a_reservation_outlives_a_target_that_is_killed() {
    let place = Place::new();
    let mut target = place.serve();
    let uri = target.word.clone();
    let mut holder = host(&uri, 7);
    let (ignores_key, persist) = (false, Some(true));
    let action = Register::Register;
    let register = Command::Register { action, ignores_key, current: 0, new: 9, persist };
    holder.run(Op::Reservation(register)).unwrap().unwrap();
    let (action, kind) = (Acquire::Acquire, 1);
    let acquire = Command::Acquire { action, ignores_key, kind, current: 9, other: 0 };
    holder.run(Op::Reservation(acquire)).unwrap().unwrap();
    for _ in 0..2 {
        target.kill();
        target = place.serve();
        assert_eq!(write(&mut host(&uri, 8)), Some(Code::ReservationConflict));
        assert_eq!(write(&mut holder), None);
    }
    // Whoever lets go lets everybody in, for good as well.
    holder.run(Op::Reservation(Command::Clear { ignores_key, current: 9 })).unwrap().unwrap();
    target.kill();
    let _target = place.serve();
    assert_eq!(write(&mut host(&uri, 8)), None);
}

/// A predecessor that was killed is gone before the kernel has let its files go.
#[test]
fn a_disk_that_another_process_is_about_to_let_go_is_waited_for() {
    let place = Place::new();
    place.serve().kill();
    let held = File::open(place.path("a.pool")).unwrap();
    held.lock().unwrap();
    let mut child = std::process::Command::new(HOLDFAST)
        .current_dir(place.folder.path())
        .args(["engine", "--serve", "spec.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = said.map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting for the disk")), "it ended");
    drop(held);
    let mut served = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let is_served = served.any(|line| line.starts_with("data "));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_served, "it ended");
}

fn put(host: &mut Client, fill: u8) {
    let (extent, data) = (Extent::new(0, 1), Buffer::copy_of(&[fill; BLOCK]));
    host.run(Op::Write { extent, data, durability: Volatile }).unwrap().unwrap();
    host.run(Op::Flush).unwrap().unwrap();
}

fn first_byte(host: &mut Client) -> u8 {
    match host.run(Op::Read { extent: Extent::new(0, 1) }).unwrap().unwrap() {
        Reply::Data(data) => data.bytes()[0],
        Reply::Done => panic!("a read has data"),
    }
}

/// M-29: the other replica has what the disk lost, whether the target stopped or was killed.
#[test]
fn a_disk_that_was_set_back_does_not_replace_newer_data() {
    for end in [Running::stop, Running::kill] {
        for older in ["a.pool", "b.pool"] {
            let place = Place::new();
            let mut target = place.serve();
            let uri = target.word.clone();
            put(&mut host(&uri, 7), 1);
            end(&mut target);
            std::fs::copy(place.path(older), place.path("image")).unwrap();
            target = place.serve();
            put(&mut host(&uri, 7), 2);
            end(&mut target);
            std::fs::copy(place.path("image"), place.path(older)).unwrap();
            let _target = place.serve();
            assert_eq!(first_byte(&mut host(&uri, 7)), 2, "{older} was set back");
        }
    }
}

/// M-29: with nobody who has what was lost, nothing is served, and it says why.
#[test]
fn a_volume_whose_only_disk_was_set_back_is_not_served() {
    let place = Place::on_disks(&["a.pool"]);
    let mut target = place.serve();
    let uri = target.word.clone();
    put(&mut host(&uri, 7), 1);
    target.stop();
    std::fs::copy(place.path("a.pool"), place.path("image")).unwrap();
    target = place.serve();
    put(&mut host(&uri, 7), 2);
    target.stop();
    std::fs::copy(place.path("a.pool"), place.path("newest")).unwrap();
    std::fs::copy(place.path("image"), place.path("a.pool")).unwrap();
    let mut command = std::process::Command::new(HOLDFAST);
    command.current_dir(place.folder.path()).args(["engine", "--serve", "spec.toml"]);
    let refused = command.output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("set back"), "{words}");
    // With the right disk all is as it was.
    std::fs::copy(place.path("newest"), place.path("a.pool")).unwrap();
    let _target = place.serve();
    assert_eq!(first_byte(&mut host(&uri, 7)), 2);
}
