//! One engine in a process of its own, which ends with the process that started it.

use std::{io::Read, net::SocketAddr, path::PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use engine::{Records, Settings, start};
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
    let settings = Settings {
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
    };
    let _engine = start(settings, Vec::new()).await.context("starting the engine")?;
    std::future::pending::<()>().await;
    Ok(())
}
