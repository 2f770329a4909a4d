//! The verifying workload, on a thread of its own that does one thing after the other.

use std::{
    ops::Range,
    path::PathBuf,
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use disk::{
    Client, Ledger, Options, Uri,
    verify::{self, Tally, Workload},
};
use tokio::sync::oneshot;

/// One turn of the workload: between two of them it looks whether there is something else to do.
const TURN: Duration = Duration::from_millis(250);
/// Longer than any switchover may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A host that works.
#[derive(Debug)]
pub struct Host {
    orders: Sender<Order>,
}

#[derive(Debug)]
enum Order {
    Fill(oneshot::Sender<Result<Tally>>),
    /// Every block, against the ledger.
    Check(oneshot::Sender<Result<Tally>>),
    /// Reads and writes at random within these blocks until told otherwise.
    Begin(Range<u64>),
    End(oneshot::Sender<Result<Seen>>),
}

/// What a workload saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub reads: u64,
    pub writes: u64,
    pub switches: u64,
    /// Of every turn, the longest time between two answers.
    pub gaps: Vec<Duration>,
}

impl Host {
    /// Connects when it has something to do. The volume must hold zeros.
    pub fn start(uri: Uri, nqn: String, ledger: PathBuf) -> Self {
        let (orders, ordered) = channel();
        std::thread::spawn(move || obey(&uri, nqn, &ledger, &ordered));
        Self { orders }
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<Result<T>>) -> Order) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).context("the workload ended")?;
        answer.await.context("the workload ended")?
    }

    pub async fn fill(&self) -> Result<Tally> {
        self.ask(Order::Fill).await
    }

    pub async fn check(&self) -> Result<Tally> {
        self.ask(Order::Check).await
    }

    pub fn begin(&self, within: Range<u64>) -> Result<()> {
        self.orders.send(Order::Begin(within)).context("the workload ended")
    }

    /// Ends what `begin` began, with a flush.
    pub async fn end(&self) -> Result<Seen> {
        self.ask(Order::End).await
    }
}

struct Worker {
    client: Client,
    ledger: Ledger,
    within: Option<Range<u64>>,
    seen: Seen,
    /// The workload found something wrong: told by the next `End`.
    failed: Option<anyhow::Error>,
    seed: u64,
}

fn obey(uri: &Uri, nqn: String, ledger: &std::path::Path, orders: &Receiver<Order>) {
    let options = Options { host_nqn: nqn, patience: PATIENCE, ..Options::default() };
    let opened = Client::connect(uri, options).context("the first connection");
    let opened = opened.and_then(|client| {
        let blocks = client.blocks();
        Ok((client, Ledger::create(ledger, 0x5eed, blocks)?))
    });
    let (client, ledger) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the workload cannot start");
            return;
        }
    };
    let (seen, failed) = (Seen::default(), None);
    let mut worker = Worker { client, ledger, within: None, seen, failed, seed: 1 };
    loop {
        let order = if worker.within.is_some() && worker.failed.is_none() {
            orders.try_recv()
        } else {
            orders.recv().map_err(|_| TryRecvError::Disconnected)
        };
        match order {
            Ok(order) => worker.take(order),
            Err(TryRecvError::Empty) => worker.turn(),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

impl Worker {
    // Whoever asked may be gone: then nobody needs the answer.
    fn take(&mut self, order: Order) {
        let (client, ledger) = (&mut self.client, &mut self.ledger);
        match order {
            Order::Fill(reply) => {
                let _ = reply.send(verify::fill(client, ledger, |_| {}).context("filling"));
            }
            Order::Check(reply) => {
                let _ = reply.send(verify::check(client, ledger, |_| {}).context("checking"));
            }
            Order::Begin(within) => {
                self.within = Some(within);
                // One turn at least, however soon it ends.
                self.turn();
            }
            Order::End(reply) => {
                self.within = None;
                let seen = std::mem::take(&mut self.seen);
                let _ = reply.send(self.failed.take().map_or(Ok(seen), Err));
            }
        }
    }

    fn turn(&mut self) {
        self.seed += 1;
        let workload = Workload {
            duration: TURN,
            depth: 16,
            within: self.within.clone(),
            seed: self.seed,
            ..Workload::default()
        };
        let began = Instant::now();
        match verify::run(&mut self.client, &mut self.ledger, &workload) {
            Ok(tally) => {
                self.seen.reads += tally.reads;
                self.seen.writes += tally.writes;
                self.seen.switches += tally.switches;
                self.seen.gaps.push(tally.gap);
                if tally.lost_told > 0 {
                    self.failed = Some(anyhow::anyhow!("a flush failed"));
                }
            }
            Err(error) => {
                tracing::error!(%error, after = ?began.elapsed(), "the workload failed");
                self.failed = Some(anyhow::Error::new(error).context("the verifying workload"));
            }
        }
    }
}
