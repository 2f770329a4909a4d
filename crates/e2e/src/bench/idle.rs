//! What an engine costs while nothing happens: many volumes, each with a host attached.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use disk::{Client, Options, Uri};
use serde_json::json;

const VOLUMES: usize = 50;
const SETTLE: Duration = Duration::from_secs(3);
const SPAN: Duration = Duration::from_secs(20);
/// Hosts look at their clocks this often: far more than their keep-alives need.
const LOOK: Duration = Duration::from_millis(500);

struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn run(binary: &Path, within: &Path) -> Result<()> {
    let folder = tempfile::tempdir_in(within)?;
    let mut spec = String::from("listen = \"127.0.0.1:0\"\nstate = \"state\"\n");
    for at in 0..VOLUMES {
        write!(spec, "[[volume]]\nname = \"v{at}\"\nsize = \"64MiB\"\n")?;
        writeln!(spec, "disks = [\"a.pool\", \"b.pool\"]")?;
    }
    std::fs::write(folder.path().join("spec.toml"), spec)?;
    let mut command = Command::new(binary);
    command.current_dir(folder.path()).args(["engine", "--serve", "spec.toml"]);
    let mut engine = Engine(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let out = BufReader::new(engine.0.stdout.take().context("no output")?);
    let mut hosts = Vec::new();
    for line in out.lines().take(VOLUMES) {
        let line = line?;
        let uri: Uri = line.split_whitespace().next_back().context("no address")?.parse()?;
        hosts.push(Client::connect(&uri, Options::default())?);
    }
    ensure!(hosts.len() == VOLUMES, "only {} volumes are served", hosts.len());
    let id = engine.0.id();
    wait(&mut hosts, SETTLE)?;
    let before = cpu(id)?;
    wait(&mut hosts, SPAN)?;
    let part = (cpu(id)? - before) / SPAN.as_secs_f64() * 100.0;
    tell("idle: CPU with 50 volumes attached, % of a core", (part * 1000.0).round() / 1000.0);
    tell("idle: resident with 50 volumes attached, MiB", resident_mib(id)?);
    Ok(())
}

fn tell(case: &str, value: f64) {
    println!("{}", json!({ "case": case, "value": value }));
}

/// Hosts that do nothing but stay.
fn wait(hosts: &mut [Client], span: Duration) -> Result<()> {
    let end = Instant::now() + span;
    while Instant::now() < end {
        for host in hosts.iter_mut() {
            host.wait(&mut Vec::new(), Some(Instant::now()))?;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Seconds of a core that the threads of a process have used, to the nanosecond: what idles uses
/// less than the ticks of the other accounts can tell.
fn cpu(id: u32) -> Result<f64> {
    let mut used = Duration::ZERO;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let nanos = stat.split_whitespace().next().context("no time")?.parse()?;
        used += Duration::from_nanos(nanos);
    }
    Ok(used.as_secs_f64())
}

fn resident_mib(id: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok((kib / 1024.0 * 10.0).round() / 10.0)
}
