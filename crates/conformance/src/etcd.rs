//! A real etcd of a test's own: started, killed, paused and restarted by it.
//!
//! It has its own folder and ports, and always syncs its writes, for crashes are what is tested.

use core::time::Duration;
use std::{
    env,
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const STARTED_WITHIN: Duration = Duration::from_secs(30);

/// Where etcd is, or `None` with a loud word about it. In CI that is a failure.
pub fn installed(what: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain([PathBuf::from("/usr/bin")])
        .map(|folder| folder.join("etcd"))
        .find(|etcd| etcd.is_file());
    if found.is_none() {
        let reason = "/usr/bin/etcd is not installed (apt-get install etcd-server)";
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{what}: {reason}");
        println!("SKIPPED: {what}: {reason}");
    }
    found
}

/// What etcd says about itself, such as `3.4.23`.
pub fn version(etcd: &Path) -> String {
    let output = Command::new(etcd).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("etcd Version: ").to_owned()
}

/// One member. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct Member {
    etcd: PathBuf,
    name: String,
    folder: TempDir,
    ports: Ports,
    flags: Vec<String>,
    child: Option<Child>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    /// Without TLS, whatever the flags say, for the test itself.
    plain: u16,
    /// For the store under test; with TLS if there are flags for it.
    client: u16,
    peer: u16,
}

impl Member {
    /// A member that is a cluster of its own. With TLS flags its endpoint is `https`.
    pub fn alone(etcd: &Path, flags: &[String]) -> Self {
        Self::cluster(etcd, 1, flags).pop().unwrap()
    }

    /// So many members of one cluster, all started.
    pub fn cluster(etcd: &Path, count: usize, flags: &[String]) -> Vec<Self> {
        let ports = free_ports(count);
        let names: Vec<_> = (0..count).map(|number| format!("m{number}")).collect();
        let peers: Vec<_> = names
            .iter()
            .zip(&ports)
            .map(|(name, ports)| format!("{name}=http://127.0.0.1:{}", ports.peer))
            .collect();
        let mut flags = flags.to_vec();
        flags.extend(["--initial-cluster".to_owned(), peers.join(",")]);
        let mut members: Vec<_> = names
            .into_iter()
            .zip(ports)
            .map(|(name, ports)| Self {
                etcd: etcd.to_owned(),
                name,
                folder: tempfile::tempdir().unwrap(),
                ports,
                flags: flags.clone(),
                child: None,
            })
            .collect();
        members.iter_mut().for_each(Self::spawn);
        members.iter().for_each(Self::wait_until_healthy);
        members
    }

    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme(), self.ports.client)
    }

    /// Ends it as a power cut would, but for the disk.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A paused process dies of this signal too.
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
        self.wait_until_healthy();
    }

    /// Silent but alive: connections stay open and nobody answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    pub fn is_leader(&self) -> bool {
        self.ask("GET", "/metrics", "")
            .is_some_and(|told| told.contains("\netcd_server_is_leader 1"))
    }

    /// A request to etcd's JSON gateway; panics if etcd refuses it.
    pub fn post(&self, path: &str, body: &str) -> String {
        let told = self.ask("POST", path, body).unwrap();
        assert!(told.starts_with("HTTP/1.1 200"), "{path}: {told}");
        told
    }

    fn scheme(&self) -> &'static str {
        if self.flags.iter().any(|flag| flag.starts_with("--cert-file=")) {
            "https"
        } else {
            "http"
        }
    }

    fn spawn(&mut self) {
        let Ports { plain, client, peer } = self.ports;
        let (plain, client) = (
            format!("http://127.0.0.1:{plain}"),
            format!("{}://127.0.0.1:{client}", self.scheme()),
        );
        let peer = format!("http://127.0.0.1:{peer}");
        let log = File::create(self.folder.path().join("log")).unwrap();
        let child = Command::new(&self.etcd)
            .args(["--name", &self.name])
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--listen-client-urls", &format!("{plain},{client}")])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--logger", "zap", "--log-level", "warn"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// There is nothing to wait on but the answer itself, so it is asked for again and again.
    fn wait_until_healthy(&self) {
        let started = Instant::now();
        while !self.ask("GET", "/health", "").is_some_and(|told| told.contains("\"true\"")) {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(started.elapsed() < STARTED_WITHIN, "etcd does not start: {}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let address = SocketAddr::from(([127, 0, 0, 1], self.ports.plain));
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
        let mut told = String::new();
        stream.read_to_string(&mut told).ok()?;
        Some(told)
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("etcd runs");
        kill_process(Pid::from_child(child), signal).unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ports that nobody uses now. Another process may take one before etcd does; then the test fails
/// with etcd's own words for it.
fn free_ports(count: usize) -> Vec<Ports> {
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners: Vec<_> = (0..count).map(|_| [bind(), bind(), bind()]).collect();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    listeners
        .iter()
        .map(|[plain, client, peer]| Ports {
            plain: port(plain),
            client: port(client),
            peer: port(peer),
        })
        .collect()
}
