//! `holdfast up` as people use it: real processes on one machine.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

fn run(arguments: &[&str]) -> Output {
    Command::new(HOLDFAST).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// HA-1, HA-2, LC-1, LC-2: a target and a replica are killed under an application that sees no
/// error; what they missed is copied, and every block is right.
#[test]
fn the_demo_tells_of_two_deaths_and_no_lost_block() {
    let output = run(&["up", "--demo"]);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{errors}");
    for words in ["saw no error", "is back", "65536 blocks read back, 0 wrong", "good order"] {
        assert!(told.contains(words), "{words:?} is missing:\n{told}");
    }
}

/// A running `up`; the lines that it has not told yet.
struct Up {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    url: String,
}

impl Up {
    fn start(data: &Path) -> Self {
        Self::start_at(data, port())
    }

    fn start_at(data: &Path, port: u16) -> Self {
        let mut child = Command::new(HOLDFAST)
            .args(["up", "--pool-size", "1GiB", "--port", &port.to_string(), "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut up = |word: &str| {
            let mut told = String::new();
            for line in lines.by_ref().map(Result::unwrap) {
                if line.trim_start().starts_with(word) {
                    return line;
                }
                told += &line;
            }
            panic!("it ended without {word:?}: {told}")
        };
        let url = up("users").split_whitespace().last().unwrap().to_owned();
        up("Ctrl-C");
        Self { child, lines, url }
    }

    fn say(&self, words: &[&str]) -> String {
        let output = run(&[words, &["--server", &self.url]].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

/// Outside what the kernel gives to those who dial, and apart from other runs of this test.
fn port() -> u16 {
    31_000 + u16::try_from(std::process::id() % 10).unwrap() * 100
}

/// RS-4: a cluster that was stopped comes back with what it held, and `down --wipe` ends it.
#[test]
fn a_cluster_keeps_its_volumes_until_it_is_wiped() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let up = Up::start(&data);
    up.say(&["create", "volume", "kept", "--size", "64MiB", "--replicas", "3", "--thin"]);
    let name = data.to_str().unwrap();
    let refused = run(&["up", "--data", name]);
    assert!(text(&refused.stderr).contains("runs in"), "{}", text(&refused.stderr));
    assert!(run(&["down", "--data", name]).status.success());
    let mut child = up.child;
    assert!(child.wait().unwrap().success());
    assert!(up.lines.map(Result::unwrap).any(|line| line.contains("the data stays")));

    let up = Up::start(&data);
    let shown = up.say(&["get", "volumes", "--output", "name"]);
    assert!(shown.contains("kept"), "{shown}");
    let wiped = run(&["down", "--wipe", "--data", name]);
    assert!(wiped.status.success(), "{}", text(&wiped.stderr));
    let mut child = up.child;
    child.wait().unwrap();
    assert!(!data.exists());
}

/// HA-2, LC-9: a drill ends a target for real; its pause is measured, its data compared, and both
/// the strike and the result are in the journal. On the last copy it must be named.
#[test]
fn a_drill_moves_the_target_under_use_and_is_recorded() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let up = Up::start_at(&data, port() + 1_000);
    let host = data.join("host-1");
    let host = host.to_str().unwrap();
    up.say(&["create", "volume", "v", "--size", "64MiB", "--replicas", "3", "--thin"]);
    let before = up.say(&["get", "volumes", "v", "-o", "json"]);
    let told = up.say(&["drill", "v", "--run", host, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["wrong"], &told["compared"]), (&0.into(), &16384.into()), "{told}");
    assert!(told["reads"].as_u64().unwrap() > 500, "{told}");
    assert!(told["writes"].as_u64().unwrap() > 500, "{told}");
    let events = up.say(&["events"]);
    assert!(events.contains("a drill was asked for"), "{events}");
    assert!(events.contains("a drill ended") && events.contains("0 wrong"), "{events}");
    assert!(events.contains("switchover begun"), "{events}");
    let after = up.say(&["get", "volumes", "v", "-o", "json"]);
    let epoch = |shown: &str| {
        let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
        shown["layout"]["epoch"].as_u64().unwrap()
    };
    assert!(epoch(&after) > epoch(&before) + 1, "{after}");

    up.say(&["create", "volume", "w", "--size", "64MiB", "--replicas", "1", "--thin"]);
    let refused = run(&["drill", "w", "--run", host, "--server", &up.url]);
    assert!(text(&refused.stderr).contains("no second healthy copy"), "{}", text(&refused.stderr));
    up.say(&["drill", "w", "--run", host, "--on-last-copy"]);
    assert!(run(&["down", "--wipe", "--data", data.to_str().unwrap()]).status.success());
    let mut child = up.child;
    child.wait().unwrap();
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("thesis");
    std::fs::write(&file, "years").unwrap();
    let name = base.path().to_str().unwrap();
    for words in [vec!["up", "--data", name], vec!["down", "--wipe", "--data", name]] {
        let refused = run(&words);
        assert!(!refused.status.success(), "{words:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "years");
}
