//! How others look at the controller's state and ask it for changes.

use std::fmt;

use plan::{Refusal, Request, World};
use reconcile::{Reconciler, Reply};
use tokio::sync::{mpsc, oneshot, watch};

use crate::Journal;

/// The controller has ended, or never began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller does not run")]
pub struct Away;

/// What can be looked at, at one moment.
#[derive(Debug)]
pub struct Inside<'a> {
    pub(crate) brain: &'a Reconciler,
    pub(crate) journal: &'a Journal,
    pub(crate) is_loaded: bool,
}

impl Inside<'_> {
    pub fn world(&self) -> &World {
        self.brain.world()
    }

    pub fn journal(&self) -> &Journal {
        self.journal
    }

    pub fn stats(&self) -> &reconcile::Stats {
        self.brain.stats()
    }

    pub fn is_leader(&self) -> bool {
        self.brain.is_leader()
    }

    /// Nothing is queued, in flight or on its way to an engine.
    pub fn is_idle(&self) -> bool {
        self.brain.is_idle()
    }

    /// Whether the world is that of the store.
    pub fn is_loaded(&self) -> bool {
        self.is_loaded
    }
}

/// Runs in the controller's own task: it must be short.
pub(crate) type Look = Box<dyn FnOnce(&Inside<'_>) + Send>;

pub(crate) enum Ask {
    Look(Look),
    Request { request: Request, reply: oneshot::Sender<Result<Reply, Refusal>> },
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Look(_) => f.write_str("Look"),
            Self::Request { request, .. } => write!(f, "Request({})", request.kind()),
        }
    }
}

/// Reaches a running controller; clones reach the same one.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) asks: mpsc::Sender<Ask>,
    pub(crate) turns: watch::Receiver<u64>,
}

impl Handle {
    /// Looks at the state; `look` runs in the controller's task and must be short.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Inside<'_>) -> T + Send + 'static,
    ) -> Result<T, Away> {
        let (answer, answered) = oneshot::channel();
        let look: Look = Box::new(move |inside| {
            // Who asked may have gone.
            let _ = answer.send(look(inside));
        });
        self.asks.send(Ask::Look(look)).await.map_err(|_| Away)?;
        answered.await.map_err(|_| Away)
    }

    /// Makes a request durable, or says why not.
    pub async fn ask(&self, request: Request) -> Result<Reply, Refusal> {
        let (reply, replied) = oneshot::channel();
        let sent = self.asks.send(Ask::Request { request, reply }).await;
        match sent {
            Ok(()) => replied.await.unwrap_or(Err(Refusal::NotLeading)),
            Err(_) => Err(Refusal::NotLeading),
        }
    }

    /// Changes whenever something may look different.
    pub fn turns(&self) -> watch::Receiver<u64> {
        self.turns.clone()
    }

    /// Looks until something is found, at every change. To be bounded by the caller.
    pub async fn until<T: Send + 'static>(
        &self,
        look: impl Fn(&Inside<'_>) -> Option<T> + Send + Clone + 'static,
    ) -> Result<T, Away> {
        let mut turns = self.turns();
        loop {
            turns.mark_unchanged();
            if let Some(found) = self.look(look.clone()).await? {
                return Ok(found);
            }
            turns.changed().await.map_err(|_| Away)?;
        }
    }
}
