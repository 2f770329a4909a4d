//! The demo's application: it writes and reads a device, and knows what each block must hold.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use disk::{
    Ledger, NbdClient,
    verify::{self, Tally, Workload},
};
use tokio::task::spawn_blocking;

/// One command each millisecond.
const PACE: Duration = Duration::from_millis(1);

/// It never opens its device again while it works: whatever happens behind it must not show.
pub(super) struct Application {
    device: NbdClient,
    ledger: Ledger,
}

impl Application {
    pub(super) fn open(device: &str, folder: &Path) -> Result<Self> {
        let device = NbdClient::connect(&device.parse()?).context("opening the device")?;
        let path: PathBuf = folder.join("demo.ledger");
        let ledger = Ledger::create(&path, u64::from(std::process::id()), device.blocks())?;
        Ok(Self { device, ledger })
    }

    pub(super) fn reopen(device: &str, ledger: Ledger) -> Result<Self> {
        let device = NbdClient::connect(&device.parse()?).context("opening the device")?;
        Ok(Self { device, ledger })
    }

    pub(super) fn close(self) -> Ledger {
        self.ledger
    }

    pub(super) fn blocks(&self) -> u64 {
        self.device.blocks()
    }

    pub(super) async fn fill(mut self) -> Result<Self> {
        spawn_blocking(move || {
            verify::fill(&mut self.device, &mut self.ledger, |_| {}).context("filling")?;
            Ok(self)
        })
        .await?
    }

    /// Reads and writes; every read is judged.
    pub(super) async fn work(mut self, duration: Duration) -> Result<(Self, Tally)> {
        spawn_blocking(move || {
            let workload = Workload {
                duration,
                depth: 1024,
                pace: Some(PACE),
                within: Some(0..super::BUSY.0 / block::BLOCK as u64),
                seed: u64::from(std::process::id()),
                ..Workload::default()
            };
            let tally = verify::run(&mut self.device, &mut self.ledger, &workload);
            Ok((self, tally.context("reading and writing")?))
        })
        .await?
    }

    /// Every block against the ledger.
    pub(super) async fn check(mut self) -> Result<Tally> {
        spawn_blocking(move || {
            verify::check(&mut self.device, &mut self.ledger, |_| {}).context("checking")
        })
        .await?
    }
}
