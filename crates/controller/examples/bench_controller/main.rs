//! What a controller costs: volumes made per second through REST, memory, idle CPU, restart.
//!
//! The controller is a process of its own, on an embedded store; engines without data speak the
//! real stream from this one. `cargo xtask bench controller 1000`.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on says where")]
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

#[path = "../../tests/drive/engine.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod engine;

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use controller::{Controller, Opened, Served, Settings, StoreUrl};
use engine::{Disks, Engine};
use hyper::Method;
use model::{Bytes, VolumeSpec};
use rest::{Answer, Client, PoolPut, PoolShown, VolumePut, VolumeShown};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

/// Clients that make volumes at once.
const CLIENTS: usize = 32;
const IDLE: Duration = Duration::from_secs(20);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match env::args().nth(1).as_deref() {
        Some("controller") => runtime.block_on(serve(&env::args().nth(2).unwrap())),
        count => runtime.block_on(measure(count.map_or(1_000, |count| count.parse().unwrap()))),
    }
}

async fn serve(folder: &str) {
    let url = StoreUrl::Embedded(folder.into());
    let Opened::Embedded(store) = url.open(None).await.unwrap() else { return };
    let listener = TcpListener::bind("127.0.0.1:7520").await.unwrap();
    let rest_listener = TcpListener::bind("127.0.0.1:7521").await.unwrap();
    let (controller, handle) = Controller::new(store.clone(), &Settings::default());
    let stop = CancellationToken::new();
    let served = Served { handle, store };
    tokio::spawn(rest::serve(rest_listener, served, stop.clone()));
    println!("listening");
    std::io::stdout().flush().unwrap();
    controller.run(listener, stop).await;
}

fn start(folder: &Path) -> Child {
    let own = env::current_exe().unwrap();
    let mut command = Command::new(own);
    let mut child = command.arg("controller").arg(folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    child
}

async fn measure(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    let client = Client::new("http://127.0.0.1:7521").unwrap();
    let disks = <[Disks; 3]>::default();
    let address = ["127.0.0.1:7520".parse().unwrap()];
    let _engines: Vec<Engine> =
        (1..).zip(&disks).map(|(number, disks)| Engine::start(number, disks, &address)).collect();
    until(&client, "holdfast_node_alive{node=\"n3\"} 1").await;
    for number in 1..=3 {
        let node = format!("n{number}");
        let put = PoolPut { id: None, labels: [].into(), node, disks: vec!["/dev/x".into()] };
        let path = format!("/v1/pools/p{number}?wait=available");
        let answer = client.change::<_, PoolShown>(Method::PUT, &path, None, Some(&put)).await;
        assert!(matches!(answer, Ok(Answer::Done(_))), "{answer:?}");
    }
    let took = make(count).await;
    let rate = f64::from(u32::try_from(count).unwrap()) / took.as_secs_f64();
    println!("{count} volumes x 3 replicas made and available in {took:.2?}: {rate:.0}/s");
    println!("resident: {}", status(&child, "VmRSS:"));
    sleep(Duration::from_secs(3)).await;
    let before = ticks(&child);
    sleep(IDLE).await;
    let spent = ticks(&child) - before;
    // A tick is 10 ms on every Linux that this runs on.
    let share = f64::from(spent) / 100.0 / IDLE.as_secs_f64() * 100.0;
    println!("idle: {share:.2} % of a core; resident: {}", status(&child, "VmRSS:"));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    let mut child = start(folder.path());
    until(&client, &format!("holdfast_volumes{{health=\"healthy\"}} {count}")).await;
    println!("killed and started again: all {count} healthy after {:.2?}", killed.elapsed());
    child.kill().unwrap();
    child.wait().unwrap();
}

async fn make(count: usize) -> Duration {
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        clients.spawn(async move {
            let client = Client::new("http://127.0.0.1:7521").unwrap();
            for number in (first..count).step_by(CLIENTS) {
                let spec = VolumeSpec { size: Bytes::gib(1), replicas: 3, ..VolumeSpec::default() };
                let put = VolumePut { id: None, labels: [].into(), spec };
                let path = format!("/v1/volumes/v{number}?wait=available&timeout=60s");
                let made = client.change::<_, VolumeShown>(Method::PUT, &path, None, Some(&put));
                let answer = made.await;
                assert!(matches!(answer, Ok(Answer::Done(_))), "{answer:?}");
            }
        });
    }
    clients.join_all().await;
    began.elapsed()
}

/// Until the metrics say so. A controller that is not there yet says nothing.
async fn until(client: &Client, line: &str) {
    loop {
        if client.text("/metrics").await.is_ok_and(|text| text.lines().any(|l| l == line)) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn status(child: &Child, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim().to_owned()
}

/// User and system time of the process.
fn ticks(child: &Child) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let after = text.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after.split_whitespace().collect();
    fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap()
}
