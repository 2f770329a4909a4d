//! `holdfast up` as people use it: real processes on one machine.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    io::{BufRead as _, BufReader, Lines},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
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

/// A running `up`; the lines that it has not told yet. A test that fails leaves nothing running:
/// every process of a cluster ends with the one that started it.
struct Up {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    url: String,
}

impl Drop for Up {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        let lines = Some(BufReader::new(child.stdout.take().unwrap()).lines());
        let mut up = Self { child, lines, url: String::new() };
        let line = up.hear("users");
        up.url.push_str(line.split_whitespace().last().unwrap());
        up.hear("Ctrl-C");
        up
    }

    /// The next line that begins so.
    fn hear(&mut self, word: &str) -> String {
        let mut told = String::new();
        for line in self.lines.as_mut().unwrap().map(Result::unwrap) {
            if line.trim_start().starts_with(word) {
                return line;
            }
            told += &line;
        }
        panic!("it ended without {word:?}: {told}")
    }

    /// How it ends, and what it still told.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let lines = self.lines.take().into_iter().flatten().map(Result::unwrap);
        (status, lines.collect())
    }

    fn say(&self, words: &[&str]) -> String {
        let output = run(&[words, &["--server", &self.url]].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

/// Outside what the kernel gives to those who dial, and apart from other runs of this test.
fn port() -> u16 {
    30_000 + u16::try_from(std::process::id() % 9).unwrap() * 100
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
    let (status, told) = up.end();
    assert!(status.success() && told.contains("the data stays"), "{told}");

    let up = Up::start(&data);
    let shown = up.say(&["get", "volumes", "--output", "name"]);
    assert!(shown.contains("kept"), "{shown}");
    let wiped = run(&["down", "--wipe", "--data", name]);
    assert!(wiped.status.success(), "{}", text(&wiped.stderr));
    up.end();
    assert!(!data.exists());
}

/// Who read the first line and went, as `head -1` does, ends nothing: it stops when it is told to,
/// in good order.
#[test]
fn a_cluster_outlives_whoever_read_its_words() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let mut up = Up::start_at(&data, port() + 1_800);
    up.lines = None;
    up.say(&["create", "volume", "v", "--size", "64MiB", "--replicas", "3", "--thin"]);
    let down = run(&["down", "--data", data.to_str().unwrap()]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    assert!(up.end().0.success());
}

/// M-23, OP-5: a cluster whose store is gone stays up, read-only, so that it can be recovered.
#[test]
fn a_cluster_without_its_store_stays_up_to_be_recovered() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let up = Up::start_at(&data, port() - 1_000);
    up.say(&["create", "volume", "kept", "--size", "64MiB", "--replicas", "3", "--thin"]);
    let name = data.to_str().unwrap();
    assert!(run(&["down", "--data", name]).status.success());
    assert!(up.end().0.success());
    std::fs::remove_dir_all(data.join("store")).unwrap();

    let mut up = Up::start_at(&data, port() - 1_000);
    let told = up.hear("It is read-only");
    assert!(told.contains("holdfast recover"), "{told}");
    up.say(&["recover"]);
    let shown = up.say(&["get", "volumes", "--output", "name"]);
    assert!(shown.contains("kept"), "{shown}");
    assert!(run(&["down", "--wipe", "--data", name]).status.success());
}

/// HA-2, LC-9: a drill ends a target for real; its pause is measured, its data compared, and both
/// the strike and the result are in the journal. On the last copy it must be named.
#[test]
fn a_drill_moves_the_target_under_use_and_is_recorded() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let up = Up::start_at(&data, port() + 900);
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
    up.end();
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
