//! The processes: started, killed, stopped and continued by node.

use std::{
    fs::OpenOptions,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context, Result};
use e2e::plan::node;
use model::NodeId;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Debug)]
pub struct Fleet {
    binary: PathBuf,
    folder: PathBuf,
    controller: String,
    /// The core that all of them share, if they are bound to one.
    pub core: Option<usize>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    address: SocketAddr,
    admin: SocketAddr,
    child: Option<Child>,
}

/// Regions count as clean after this: a short one shows what a resync leaves out.
const IDLE_MS: u64 = 1_500;

impl Fleet {
    pub fn new(binary: &Path, folder: &Path, controller: &str, count: usize) -> Result<Self> {
        let member = |_| Ok(Member { address: free()?, admin: free()?, child: None });
        let members = (0..count).map(member).collect::<Result<_>>()?;
        let (binary, folder) = (binary.into(), folder.into());
        Ok(Self { binary, folder, controller: controller.into(), core: None, members })
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address).collect()
    }

    pub fn start(&mut self, at: usize) -> Result<()> {
        let log = self.folder.join(format!("engine{at}.log"));
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let member = &mut self.members[at];
        // Engines end with this process, whatever ends it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(core) = self.core {
            command.args(["taskset", "--cpu-list", &core.to_string()]);
        }
        let disk = self.folder.join(format!("disk{at}"));
        if disk.exists() {
            command.arg(&self.binary).arg("engine").arg("--disk").arg(disk);
        } else {
            command.arg(&self.binary).arg("engine");
        }
        let child = command
            .args(["--node-id", &node(at).0.to_string()])
            .args(["--listen", &member.address.to_string()])
            .args(["--admin", &member.admin.to_string()])
            .args(["--controller", &self.controller])
            .args(["--clean-after", &IDLE_MS.to_string()])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("starting an engine")?;
        member.child = Some(child);
        Ok(())
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&mut self, at: usize) -> Result<()> {
        if let Some(mut child) = self.members[at].child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    pub fn signal(&self, at: usize, signal: Signal) -> Result<()> {
        let child = self.members[at].child.as_ref().context("it does not run")?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.context("no such process")?, signal)?)
    }

    pub fn at(&self, wanted: NodeId) -> usize {
        (0..self.members.len()).find(|at| node(*at) == wanted).unwrap_or(0)
    }

    /// Bytes that the target on this node has copied since it started.
    pub async fn copied(&self, at: usize) -> Result<u64> {
        let mut stream = tokio::net::TcpStream::connect(self.members[at].admin).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: e2e\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let line = text.lines().find(|line| line.starts_with("holdfast_volume_copied_bytes_total"));
        let value = line.and_then(|line| line.rsplit_once(' ')).context("no such metric")?.1;
        Ok(value.parse()?)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for at in 0..self.members.len() {
            // One that cannot be killed ends with this process.
            let _ = self.kill(at);
        }
    }
}

/// Outside the range from which the kernel gives ports to those who dial: a port of an engine that
/// is away for a moment must not be given to anybody.
fn free() -> Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + u16::try_from(std::process::id() % 900)? * 20;
    for _ in 0..1_000 {
        let at = SocketAddr::from(([127, 0, 0, 1], first + NEXT.fetch_add(1, Ordering::Relaxed)));
        if TcpListener::bind(at).is_ok() {
            return Ok(at);
        }
    }
    anyhow::bail!("no port is free")
}
