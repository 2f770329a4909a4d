//! What the server needs of a controller.

use std::{collections::BTreeMap, future::Future};

use model::{Entry, Event, Revision};
use plan::{Accepted, Refusal, Request, World};
use tokio::sync::watch;

pub trait Backend: Clone + Send + Sync + 'static {
    /// Looks at the state at one moment; `look` is short.
    fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Seen<'_>) -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Away>> + Send;

    /// Makes a change durable, or says why not. `choose` is short: it names the change by the state
    /// of one moment, and at that same moment the change is admitted or refused.
    fn change<T: Send + 'static, E: From<Refusal> + Send + 'static>(
        &self,
        choose: impl FnOnce(&Seen<'_>) -> Result<Chosen<T>, E> + Send + 'static,
    ) -> impl Future<Output = Result<(T, Accepted), E>> + Send;

    /// Changes whenever something may look different.
    fn turns(&self) -> watch::Receiver<u64>;

    /// The stored records after a key, as they lie in the store.
    fn records(
        &self,
        after: Option<String>,
        limit: usize,
        at: Option<Revision>,
    ) -> impl Future<Output = Result<(Vec<Entry>, Revision, Option<String>), Unread>> + Send;
}

/// The state at one moment.
#[derive(Debug)]
pub struct Seen<'a> {
    pub world: &'a World,
    pub events: &'a BTreeMap<u64, Event>,
    pub lead: Lead,
    /// Whether the world is that of the store; not yet, right after a start.
    pub is_loaded: bool,
    /// What the controller did, by kind.
    pub counters: Vec<(&'static str, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// This controller leads.
    pub is_own: bool,
    /// Somebody leads.
    pub is_taken: bool,
    /// Where the leader takes requests.
    pub address: Option<String>,
}

/// A change that was chosen, and what is kept of that moment for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<T> {
    pub request: Request,
    /// The revision of the spec that the user saw, if the change depends on it.
    pub if_spec: Option<u64>,
    pub kept: T,
}

/// Nobody is there to look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Away {
    pub reason: String,
}

/// Why records are not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    #[error(transparent)]
    Away(#[from] Away),
    /// The store no longer keeps, or does not yet have, what it held at that revision.
    #[error("{reason}")]
    NoSuchRevision { reason: String },
}
