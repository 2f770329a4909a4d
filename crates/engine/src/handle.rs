//! The engine port, from any thread: orders to the driver, and its answers.

use std::sync::Arc;

use mirror::{StoreAnswer, StoreRequest};
use model::{Inventory, NodeConfig, Revision};
use ports::{Engine, EngineError};
use storage_node::{InjectedFault, TargetKey};
use tokio::sync::{oneshot, watch};

/// What the control side asks of the driver.
#[derive(Debug)]
pub enum Order {
    Apply {
        config: Box<NodeConfig>,
        reply: oneshot::Sender<Result<Revision, EngineError>>,
    },
    Inventory {
        reply: oneshot::Sender<Inventory>,
    },
    /// The store's answer to a question of a target.
    Record {
        target: TargetKey,
        call: u64,
        answer: StoreAnswer,
    },
    Metrics {
        reply: oneshot::Sender<String>,
    },
    /// For tests; refused unless the process was started for it.
    Inject {
        fault: InjectedFault,
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// End a target as its death would, for a drill.
    Strike {
        target: TargetKey,
    },
    /// Flush, stop targets cleanly, export pools, end.
    Stop {
        reply: oneshot::Sender<()>,
    },
    /// End at once, as a crash would.
    Abandon,
}

/// What a target asks of the store.
#[derive(Debug)]
pub struct StoreQuestion {
    pub target: TargetKey,
    pub call: u64,
    pub request: StoreRequest,
}

/// Where orders go; the driver is woken by it.
pub type Orders = Arc<dyn Fn(Order) + Send + Sync>;

/// A running engine.
#[derive(Clone)]
pub struct Handle {
    orders: Orders,
    /// The sequence number of the newest inventory that is out of date.
    stale: watch::Receiver<u64>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    pub fn new(orders: Orders, stale: watch::Receiver<u64>) -> Self {
        Self { orders, stale }
    }

    pub fn order(&self, order: Order) {
        (self.orders)(order);
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.order(order(reply));
        answer.await.ok()
    }

    /// Hands the config over at once; the answer comes when its work is done.
    pub fn begin_apply(
        &self,
        config: Box<NodeConfig>,
    ) -> impl Future<Output = Result<Revision, EngineError>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Apply { config, reply });
        async move { answer.await.unwrap_or_else(|_| Err(stopped())) }
    }

    /// In the text format of Prometheus.
    pub async fn metrics(&self) -> Option<String> {
        self.ask(|reply| Order::Metrics { reply }).await
    }

    pub async fn inject(&self, fault: InjectedFault) -> Result<(), String> {
        let stopped = || Err("the engine has stopped".to_string());
        self.ask(|reply| Order::Inject { fault, reply }).await.unwrap_or_else(stopped)
    }

    /// Ends at once and leaves everything as it is: what a crash of the process does.
    pub fn abandon(&self) {
        self.order(Order::Abandon);
    }

    pub async fn stop(&self) {
        self.ask(|reply| Order::Stop { reply }).await;
    }
}

impl Engine for Handle {
    async fn apply(&self, config: &NodeConfig) -> Result<Revision, EngineError> {
        self.begin_apply(Box::new(config.clone())).await
    }

    async fn inventory(&self) -> Result<Inventory, EngineError> {
        self.ask(|reply| Order::Inventory { reply }).await.ok_or_else(stopped)
    }

    async fn changes(&self, since: u64) -> Result<(), EngineError> {
        let mut stale = self.stale.clone();
        stale.wait_for(|stale| *stale >= since).await.map_err(|_| stopped())?;
        Ok(())
    }
}

fn stopped() -> EngineError {
    EngineError::Unreachable { reason: "the engine has stopped".into() }
}
