//! How others look at the controller's state and ask it for changes.

use std::fmt;

use plan::{Accepted, Refusal, Request};
use ports::{Entry, Store, StoreError};
use reconcile::Reconciler;
use rest::{Away, Backend, Chosen, Lead, Seen, Unread};
use store::limits::PAGE_ENTRIES_MAX;
use tokio::sync::{mpsc, oneshot, watch};

use crate::journal::Journal;

/// Runs in the controller's own task: it must be short.
type Look = Box<dyn FnOnce(&Seen<'_>) + Send>;
type Choose = Box<dyn FnOnce(&Seen<'_>) -> Option<Chosen<()>> + Send>;

pub(crate) enum Ask {
    Look(Look),
    /// Chosen and admitted in one turn: nothing changes in between.
    Change {
        choose: Choose,
        reply: oneshot::Sender<Result<Accepted, Refusal>>,
    },
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Look(_) => "Look",
            Self::Change { .. } => "Change",
        })
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
        look: impl FnOnce(&Seen<'_>) -> T + Send + 'static,
    ) -> Result<T, Away> {
        let (answer, answered) = oneshot::channel();
        let look: Look = Box::new(move |seen| {
            // Who asked may have gone.
            let _ = answer.send(look(seen));
        });
        self.asks.send(Ask::Look(look)).await.map_err(|_| away())?;
        answered.await.map_err(|_| away())
    }

    /// Makes a change durable, or says why not; `choose` runs in the controller's task.
    async fn change<T: Send + 'static, E: From<Refusal> + Send + 'static>(
        &self,
        choose: impl FnOnce(&Seen<'_>) -> Result<Chosen<T>, E> + Send + 'static,
    ) -> Result<(T, Accepted), E> {
        let (keep, kept) = oneshot::channel();
        let choose: Choose = Box::new(move |seen| {
            let (chosen, kept) = match choose(seen) {
                Ok(Chosen { request, if_spec, kept }) => {
                    (Some(Chosen { request, if_spec, kept: () }), Ok(kept))
                }
                Err(error) => (None, Err(error)),
            };
            // Who asked may have gone; what was chosen is done all the same.
            let _ = keep.send(kept);
            chosen
        });
        let (reply, replied) = oneshot::channel();
        // A controller that has ended does not lead.
        let gone = || E::from(Refusal::NotLeading);
        self.asks.send(Ask::Change { choose, reply }).await.map_err(|_| gone())?;
        let kept = kept.await.map_err(|_| gone())??;
        let accepted = replied.await.map_err(|_| gone())??;
        Ok((kept, accepted))
    }

    /// Makes a request durable, or says why not.
    pub async fn ask(&self, request: Request) -> Result<Accepted, Refusal> {
        let chosen = Chosen { request, if_spec: None, kept: () };
        self.change(move |_| Ok(chosen)).await.map(|((), accepted)| accepted)
    }

    /// Changes whenever something may look different.
    pub fn turns(&self) -> watch::Receiver<u64> {
        self.turns.clone()
    }

    /// Looks until something is found, at every change. To be bounded by the caller.
    pub async fn until<T: Send + 'static>(
        &self,
        look: impl Fn(&Seen<'_>) -> Option<T> + Send + Clone + 'static,
    ) -> Result<T, Away> {
        let mut turns = self.turns();
        loop {
            turns.mark_unchanged();
            if let Some(found) = self.look(look.clone()).await? {
                return Ok(found);
            }
            turns.changed().await.map_err(|_| away())?;
        }
    }
}

/// A running controller and the store that it runs on, as the REST server sees them.
#[derive(Clone, Debug)]
pub struct Served<S> {
    pub handle: Handle,
    pub store: S,
}

impl<S: Store + Clone + 'static> Backend for Served<S> {
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Seen<'_>) -> T + Send + 'static,
    ) -> Result<T, Away> {
        self.handle.look(look).await
    }

    async fn change<T: Send + 'static, E: From<Refusal> + Send + 'static>(
        &self,
        choose: impl FnOnce(&Seen<'_>) -> Result<Chosen<T>, E> + Send + 'static,
    ) -> Result<(T, Accepted), E> {
        self.handle.change(choose).await
    }

    fn turns(&self) -> watch::Receiver<u64> {
        self.handle.turns()
    }

    async fn records(
        &self,
        after: Option<String>,
        limit: usize,
        at: Option<model::Revision>,
    ) -> Result<(Vec<Entry>, model::Revision, Option<String>), Unread> {
        let limit = limit.min(PAGE_ENTRIES_MAX);
        let page = self.store.list("", after.as_deref(), limit, at).await;
        let page = page.map_err(|error| {
            let reason = error.to_string();
            match error {
                StoreError::Compacted { .. }
                | StoreError::Future { .. }
                | StoreError::Invalid { .. }
                | StoreError::TooLarge { .. } => Unread::NoSuchRevision { reason },
                _ => Away { reason }.into(),
            }
        })?;
        Ok((page.entries, page.revision, page.next))
    }
}

pub(crate) fn seen<'a>(brain: &'a Reconciler, journal: &'a Journal, is_loaded: bool) -> Seen<'a> {
    let stats = brain.stats();
    let totals = [("plans", stats.plans), ("conflicts", stats.conflicts), ("terms", stats.terms)];
    let steps = stats.steps.iter().map(|(kind, count)| (*kind, *count));
    Seen {
        world: brain.world(),
        events: journal.events(),
        lead: Lead { is_own: brain.is_leader(), ..journal.lead().clone() },
        is_loaded,
        counters: totals.into_iter().chain(steps).collect(),
    }
}

fn away() -> Away {
    Away { reason: "the controller does not run".into() }
}
