//! A controller, engines and a host as real processes, and the commands that people use.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../../host/tests/attach/nbd.rs"]
mod nbd;
#[path = "shared/process.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod process;

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::{
    nbd::{Nbd, Work, check},
    process::{Process, holdfast},
};

struct Cluster {
    folder: tempfile::TempDir,
    listen: SocketAddr,
    rest: SocketAddr,
    engines: Vec<Option<Process>>,
    processes: Vec<Process>,
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engines = (0..3).map(|_| None).collect();
        let mut cluster =
            Self { folder, listen: free(), rest: free(), engines, processes: Vec::new() };
        let store = format!("embedded:{}", cluster.path("store").display());
        let (listen, rest) = (cluster.listen.to_string(), cluster.rest.to_string());
        cluster.begin(&["controller", "--store", &store, "--listen", &listen, "--rest", &rest]);
        for at in 0..3 {
            let disk = cluster.path(&format!("disk{at}"));
            std::fs::File::create(disk).unwrap().set_len(256 << 20).unwrap();
            cluster.bring(at);
        }
        cluster.begin_host();
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self, name: &str) -> Stdio {
        let log = std::fs::File::options().create(true).append(true).open(self.path(name));
        log.unwrap().into()
    }

    fn begin(&mut self, words: &[&str]) {
        let log = self.log(&format!("{}.log", words[0]));
        self.processes.push(Process(holdfast(words).stderr(log).spawn().unwrap()));
    }

    fn begin_host(&mut self) {
        let (controller, run) = (self.listen.to_string(), self.path("run"));
        let (run, state) = (run.to_str().unwrap(), self.path("host-state"));
        let state = state.to_str().unwrap();
        self.begin(&[
            "host",
            "--controller",
            &controller,
            "--name",
            "here",
            "--state",
            state,
            "--run",
            run,
            "--paths",
            "user",
        ]);
    }

    fn bring(&mut self, at: usize) {
        let controller = self.listen.to_string();
        let (name, state) = (format!("n{at}"), self.path(&format!("engine{at}")));
        let mut command = holdfast(&["engine", "--controller", &controller, "--name", &name]);
        command.args(["--listen", "127.0.0.1:0", "--state", state.to_str().unwrap()]);
        command.arg("--disk").arg(self.path(&format!("disk{at}")));
        command.stderr(self.log(&format!("engine{at}.log")));
        self.engines[at] = Some(Process(command.spawn().unwrap()));
    }

    fn say(&self, words: &[&str]) -> Output {
        let mut command = holdfast(words);
        command.env("HOLDFAST_SERVER", format!("http://{}", self.rest));
        command.env("HOLDFAST_RUN", self.path("run")).output().unwrap()
    }

    fn must(&self, words: &[&str]) -> String {
        let said = self.say(words);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{words:?}: {text}{error}\n{}", self.logs());
        text
    }

    /// Asks until the answer is as it should be: what is waited for tells of itself nowhere.
    fn until(&self, words: &[&str], is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(40);
        loop {
            let said = self.say(words);
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            if said.status.success() && is_so(&text) {
                return text;
            }
            assert!(Instant::now() < end, "{words:?}: {text}\n{}", self.logs());
        }
    }

    fn logs(&self) -> String {
        let names = ["controller.log", "host.log", "engine0.log", "engine1.log", "engine2.log"];
        let read = |name: &&str| {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            let last: Vec<&str> = text.lines().rev().take(40).collect();
            format!("== {name}\n{}\n", last.into_iter().rev().collect::<Vec<_>>().join("\n"))
        };
        names.iter().map(read).collect()
    }

    /// A volume of two copies on this machine; its device.
    fn attached(&self) -> String {
        self.until(&["get", "cluster", "-o", "json"], |text| text.contains("\"leading\": true"));
        for at in 0..3 {
            let (pool, node) = (format!("p{at}"), format!("n{at}"));
            self.until(&["get", "nodes", &node], |_| true);
            let disk = self.path(&format!("disk{at}"));
            let disk = disk.to_str().unwrap();
            self.must(&["create", "pool", &pool, "--node", &node, "--disk", disk]);
        }
        self.must(&["create", "volume", "v", "--size", "64MiB", "--replicas", "2", "--thin"]);
        self.until(&["get", "hosts", "here"], |_| true);
        self.must(&["attach", "v"])
    }

    fn signal(&self, at: usize, signal: &str) {
        let pid = self.engines[at].as_ref().unwrap().0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// The node that serves the volume.
    fn target(&self) -> usize {
        let words = ["get", "targets", "-o", "json"];
        let shown = self.until(&words, |text| text.contains("\"serving\""));
        let names = (0..3).filter(|at| shown.contains(&format!("\"n{at}\"")));
        let found: Vec<usize> = names.collect();
        assert_eq!(found.len(), 1, "{shown}");
        found[0]
    }
}

fn socket(device: &str) -> PathBuf {
    device.trim().split_once("socket=").unwrap().1.into()
}

/// HA-1, HA-4, LC-4: with real processes a volume is attached, its target killed with `kill -9`
/// under an application, which sees a pause and loses nothing, and detached again.
#[tokio::test(flavor = "multi_thread")]
async fn an_attached_volume_survives_kill_9_of_its_target() {
    let mut cluster = Cluster::start();
    let device = cluster.attached();
    let nbd = Nbd::connect(&socket(&device)).unwrap();
    assert_eq!(nbd.size, 64 << 20);
    let work = Work::begin(nbd);
    work.goes_on(200).await;
    let old = cluster.target();
    cluster.engines[old] = None;
    work.goes_on(200).await;
    assert_ne!(cluster.target(), old);
    let (_, seen) = work.end().await;
    assert!(seen.gap < Duration::from_secs(10), "{seen:?}");
    cluster.bring(old);
    assert_eq!(cluster.must(&["detach", "v"]).trim(), "volume/v detached");
    assert!(!socket(&device).exists());
    let told: serde_json::Value =
        serde_json::from_str(&cluster.must(&["attach", "v", "--json"])).unwrap();
    assert_eq!(told["name"], "v");
    let device = told["device"].as_str().unwrap();
    check(&mut Nbd::connect(&socket(device)).unwrap(), seen.writes);
}

/// HA-3, HA-7: a target that falls silent is followed by another, and when it wakes up what it had
/// in hand changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_attached_volume_survives_the_silence_of_its_target() {
    let cluster = Cluster::start();
    let device = cluster.attached();
    let work = Work::begin(Nbd::connect(&socket(&device)).unwrap());
    work.goes_on(200).await;
    let old = cluster.target();
    cluster.signal(old, "-STOP");
    work.goes_on(200).await;
    assert_ne!(cluster.target(), old);
    cluster.signal(old, "-CONT");
    work.goes_on(500).await;
    let (_, seen) = work.end().await;
    assert!(seen.gap < Duration::from_secs(20), "{seen:?}");
}

/// What is wrong is said in the words of the one who asked.
#[test]
fn attaching_without_a_host_or_a_volume_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().to_str().unwrap();
    let said = holdfast(&["attach", "v", "--run", run]).output().unwrap();
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && error.contains("no host runs here"), "{error}");
    let said = holdfast(&["host", "--controller", "127.0.0.1:1"]).output().unwrap();
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && error.contains("--state"), "{error}");
}
