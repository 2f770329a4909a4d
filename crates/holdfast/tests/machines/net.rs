//! Three namespaces on one bridge, and who runs the test beside them.

use std::process::Command;

/// Addresses that are for examples: no real machine has one.
pub fn address(machine: u8) -> String {
    format!("192.0.2.{machine}")
}

/// In namespaces of networks and mounts that are this process's own.
pub fn build() {
    // Names of namespaces are kept there.
    run("mount", "-t tmpfs tmpfs /run");
    ip("link set lo up");
    ip("link add wire type bridge");
    ip("addr add 192.0.2.254/24 dev wire");
    ip("link set wire up");
    for n in 1..=3 {
        ip(&format!("netns add m{n}"));
        ip(&format!("link add veth{n} type veth peer name eth0 netns m{n}"));
        ip(&format!("link set veth{n} master wire up"));
        ip(&format!("-n m{n} addr add {}/24 dev eth0", address(n)));
        ip(&format!("-n m{n} link set eth0 up"));
        ip(&format!("-n m{n} link set lo up"));
    }
}

/// A program on a machine. Its process is the program's own.
pub fn on(machine: u8, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/m{machine}")).arg("--").arg(program);
    command
}

fn ip(words: &str) {
    run("ip", words);
}

fn run(program: &str, words: &str) {
    let status = Command::new(program).args(words.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {words}");
}
