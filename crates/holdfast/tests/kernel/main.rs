//! A real Linux kernel as the host: its NVMe/TCP driver, nvme-cli, fio and ext4 on our targets.
//!
//! Not among the tests that `cargo test` runs unasked: it needs QEMU and a kernel of Debian's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod guest;
#[path = "../tools/rig.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod rig;

use std::{fs, net::TcpListener};

use guest::Guest;
use rig::Running;

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

fn uuid(digit: char) -> String {
    "dddddddd-dddd-4ddd-8ddd-dddddddddddd".replace('d', &digit.to_string())
}
