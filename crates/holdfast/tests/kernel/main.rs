//! A real Linux kernel as the host: its NVMe/TCP driver, nvme-cli, fio and ext4 on our targets.
//!
//! Not among the tests that `cargo test` runs unasked: it needs QEMU and a kernel of Debian's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod guest;
#[path = "../tools/rig.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod rig;

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use guest::Guest;
use rig::{HOLDFAST, Running, succeed};

const SIZE: u64 = 64 << 20;

/// What the guest may not use belongs to somebody with this name.
const STRANGER: &str = "nqn.2014-08.org.nvmexpress:uuid:99999999-9999-9999-9999-999999999999";

#[test]
fn a_linux_host_finds_a_stand_alone_target_as_the_specification_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (data, others, ram) = (uuid('d'), uuid('e'), uuid('f'));
    let volume = |name: &str, id: &str, rest: &str| {
        format!(
            "[[volume]]\nname = \"{name}\"\nid = \"{id}\"\nsize = \"{SIZE}\"\n\
             disks = [\"{name}-a.pool\", \"{name}-b.pool\"]\n{rest}\n"
        )
    };
    let spec = [
        format!("listen = \"{listen}\"\nstate = \"state\"\n"),
        volume("data", &data, ""),
        volume("others", &others, &format!("hosts = [\"{STRANGER}\"]")),
        format!("[[device]]\nname = \"ram\"\nid = \"{ram}\"\nmemory = \"64MiB\"\n"),
    ];
    fs::write(folder.path().join("spec.toml"), spec.concat()).unwrap();
    let port = listen.port().to_string();
    // As the guest sees the real machine's loopback.
    let advertised = format!("10.0.2.2:{port}");
    let serve = || {
        let args = ["engine", "--serve", "spec.toml", "--advertise", &advertised];
        Running::start(folder.path(), &args, "others ")
    };
    let mut target = serve();
    let share = tempfile::tempdir().unwrap();
    let blocks = (SIZE / 4096).to_string();
    let facts = [
        ("PORT", &*port),
        ("DATA", &data),
        ("OTHERS", &others),
        ("RAM", &ram),
        ("BLOCKS", &blocks),
    ];
    Guest::boot(share.path(), include_str!("alone.sh"), &facts).run(|asked| {
        assert_eq!(asked, "kill");
        target.kill();
        target = serve();
    });
}

/// HA-3, HA-4, HA-8: the kernel's device outlives its target's process, and a drain of its node.
#[test]
fn a_linux_host_keeps_its_device_while_the_target_is_killed_and_moved() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    // Outside what the kernel gives to those who dial, and apart from other runs of this test.
    let port = 28_000 + u16::try_from(std::process::id() % 9).unwrap() * 100;
    let (first, data_name) = (port.to_string(), data.to_str().unwrap());
    let up = ["up", "--pool-size", "1GiB", "--port", &first, "--data", data_name];
    let _up = Running::start(folder.path(), &up, "Ctrl-C");
    let url = format!("http://127.0.0.1:{}", port + 1);
    let say = |words: &[&str]| {
        succeed(Command::new(HOLDFAST).args(words).args(["--server", &url]).current_dir(&folder))
    };
    say(&["create", "volume", "music", "--size", "64MiB", "--replicas", "2", "--thin"]);
    // The second word of the volume's line is the node of its target.
    let node = || {
        let told = say(&["get", "targets"]);
        let line = told.lines().find(|line| line.starts_with("music")).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let share = tempfile::tempdir().unwrap();
    let facts = [("PORT", &*first), ("HOLDFAST", HOLDFAST)];
    let mut stopped = PathBuf::new();
    Guest::boot(share.path(), include_str!("cluster.sh"), &facts).run(|asked| match asked {
        "kill" => signal("-9", &data.join(node())),
        "stop" => {
            stopped = data.join(node());
            signal("-STOP", &stopped);
        }
        "go-on" => signal("-CONT", &stopped),
        "drain" => drop(say(&["drain", &node()])),
        other => panic!("{other}"),
    });
}

/// A signal for the engine whose state is in this folder.
fn signal(which: &str, state: &Path) {
    let state = state.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let is_it = |process: &Path| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == b"engine") && words.any(|word| word == state.as_bytes())
    };
    let process = processes.into_iter().find(|process| is_it(process)).unwrap();
    succeed(Command::new("kill").arg(which).arg(process.file_name().unwrap()));
}

fn uuid(digit: char) -> String {
    "dddddddd-dddd-4ddd-8ddd-dddddddddddd".replace('d', &digit.to_string())
}
