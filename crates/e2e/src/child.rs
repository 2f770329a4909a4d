//! One engine in a process of its own, which ends with the process that started it.

use std::{
    io::Read,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use engine::{Records, Settings, StartError, start};
use model::{Millis, NodeId};

#[derive(Clone, Debug, Args)]
pub struct Options {
    #[arg(long)]
    pub node: uuid::Uuid,
    #[arg(long)]
    pub listen: SocketAddr,
    #[arg(long)]
    pub admin: SocketAddr,
    #[arg(long)]
    pub controller: String,
    #[arg(long)]
    pub disk: PathBuf,
    /// Regions without a write for so long are called clean.
    #[arg(long)]
    pub idle_ms: u64,
}

/// A port that is still taken after this is somebody else's.
const PORT_WAIT: Duration = Duration::from_secs(10);

pub fn main(options: &Options) -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    // Nobody writes there: it ends when the other process does, whatever ended that.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(options))
}

async fn serve(options: &Options) -> Result<()> {
    // The ring of a process that was killed may keep its port for a moment after its end.
    let deadline = Instant::now() + PORT_WAIT;
    let _engine = loop {
        match start(settings(options), Vec::new()).await {
            Err(StartError::Listen { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            started => break started.context("starting the engine")?,
        }
    };
    std::future::pending::<()>().await;
    Ok(())
}

fn settings(options: &Options) -> Settings {
    Settings {
        node: NodeId(options.node),
        name: options.node.to_string(),
        listen: options.listen,
        advertise: None,
        admin: Some(options.admin),
        controllers: vec![options.controller.clone()],
        disks: vec![options.disk.clone()],
        records: Records::Controllers,
        backend: uring::Backend::Auto,
        takes_faults: true,
        times: mirror::Times { idle: Millis(options.idle_ms), ..mirror::Times::default() },
        throttle: mirror::Throttle::default(),
    }
}
