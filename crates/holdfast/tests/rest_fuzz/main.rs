//! Bad requests: schemathesis on the API of a real cluster, from the document that is committed.
//!
//! Whatever it sends, the answer is one that the document lists and never a 5xx; no process dies;
//! the records keep their promises; and what was made can be deleted without a trace.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::JoinHandle,
};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// Given up is given up: these come last.
const FINAL: &[&str] = &["forgetNode", "forgetPool", "promote", "recover"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A cluster that runs until it is dropped, and what it tells meanwhile.
struct Up {
    child: Child,
    told: Option<JoinHandle<String>>,
    url: String,
}

impl Up {
    fn start(data: &Path) -> Self {
        let port = (32_000 + std::process::id() % 10 * 50).to_string();
        let mut child = Command::new(HOLDFAST)
            .args(["up", "--pool-size", "1GiB", "--port", &port, "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let users = lines.find(|line| line.trim_start().starts_with("users")).unwrap();
        let url = users.split_whitespace().last().unwrap().to_owned();
        lines.find(|line| line.starts_with("Ctrl-C")).unwrap();
        let told = std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
        Self { child, told: Some(told), url }
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(HOLDFAST).args(words).args(["--server", &self.url]).output().unwrap()
    }

    fn say(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let (out, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{words:?}: {errors}\n{out}");
        out
    }

    fn names(&self, kind: &str) -> Vec<String> {
        let shown = self.say(&["get", kind, "-o", "name"]);
        shown.lines().filter_map(|line| Some(line.split_once('/')?.1.to_owned())).collect()
    }

    /// Stops it, and gives what it told.
    fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
        self.told.take().unwrap().join().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One run of the fuzzer; it must find nothing.
fn fuzz(up: &Up, seconds: u32, choice: &[(&str, &str)]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = here.join("tests/rest_fuzz");
    let mut command = Command::new("st");
    command.arg("--config-file").arg(ours.join("schemathesis.toml")).arg("run");
    command.arg(here.join("../../docs/reference/openapi.json"));
    command.args(["--url", &up.url, "--seed", "20", "--max-time", &seconds.to_string()]);
    command.args(["--continue-on-failure", "--request-timeout", "10", "--no-color"]);
    for (flag, value) in choice {
        command.args([*flag, *value]);
    }
    // Its notes go with the folder.
    let folder = tempfile::tempdir().unwrap();
    command.current_dir(folder.path()).env("SCHEMATHESIS_HOOKS", "hooks");
    command.env("PYTHONPATH", &ours).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    let line = told.lines().find(|line| line.contains(" generated, ")).unwrap_or_default();
    println!("{seconds} s of fuzzing: {}", line.trim());
}

/// What stays when everything was deleted is what somebody forgot.
fn delete_all(up: &Up) {
    for name in up.names("volumes") {
        up.say(&[
            "delete",
            "volume",
            &name,
            "--with-snapshots",
            "--force",
            "--yes",
            "--timeout",
            "30s",
        ]);
    }
    assert_eq!(up.names("snapshots"), Vec::<String>::new());
    assert_eq!(up.names("replicas"), Vec::<String>::new());
    let pools: serde_json::Value =
        serde_json::from_str(&up.say(&["get", "pools", "-o", "json"])).unwrap();
    let own = pools["items"].as_array().unwrap().iter();
    let own = own.filter(|pool| pool["meta"]["name"].as_str().unwrap().starts_with("pool-"));
    for pool in own {
        assert_eq!(pool["status"]["replicas"], 0, "{pool}");
    }
}

#[test]
fn bad_requests_are_refused_as_the_document_says_and_leave_nothing_behind() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let up = Up::start(&data);
    up.say(&["create", "volume", "db", "--size", "64MiB", "--replicas", "2", "--thin"]);
    up.say(&["create", "snapshot", "before", "--volume", "db"]);
    up.say(&["publish", "db", "--host", "host-1"]);
    let but_final: Vec<_> = FINAL.iter().map(|id| ("--exclude-operation-id", *id)).collect();
    fuzz(&up, 40, &but_final);
    up.say(&["doctor"]);
    delete_all(&up);
    up.say(&["create", "volume", "db", "--size", "64MiB", "--replicas", "2", "--thin"]);
    let only_final: Vec<_> = FINAL.iter().map(|id| ("--include-operation-id", *id)).collect();
    fuzz(&up, 10, &only_final);
    up.say(&["doctor"]);
    let told = up.stop();
    assert!(!told.contains(" ended ("), "a process ended by itself:\n{told}");
    for log in std::fs::read_dir(data.join("logs")).unwrap() {
        let log = log.unwrap().path();
        let lines = std::fs::read_to_string(&log).unwrap();
        assert!(!lines.contains("panicked"), "{}", log.display());
    }
}
