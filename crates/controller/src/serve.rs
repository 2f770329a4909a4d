//! The controller as the REST server sees it.

use plan::{Refusal, Request};
use ports::{Store, StoreError};
use rest::{Accepted, Away, Backend, Lead, RawRecord, Seen, Unread};
use store::limits::PAGE_ENTRIES_MAX;
use tokio::sync::watch;

use crate::{Handle, Inside};

/// A running controller and the store that it runs on.
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
        let looked = self.handle.look(move |inside| look(&seen(inside))).await;
        looked.map_err(|away| Away { reason: away.to_string() })
    }

    async fn ask(&self, request: Request) -> Result<Accepted, Refusal> {
        let reply = self.handle.ask(request).await?;
        Ok(Accepted { revision: reply.revision, words: reply.words })
    }

    fn turns(&self) -> watch::Receiver<u64> {
        self.handle.turns()
    }

    async fn records(
        &self,
        after: Option<String>,
        limit: usize,
        at: Option<model::Revision>,
    ) -> Result<(Vec<RawRecord>, model::Revision, Option<String>), Unread> {
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
        let records = page.entries.into_iter().map(|entry| RawRecord {
            key: entry.key,
            value: entry.value,
            modified: entry.modified,
        });
        Ok((records.collect(), page.revision, page.next))
    }
}

fn seen<'a>(inside: &'a Inside<'_>) -> Seen<'a> {
    let lead = inside.journal().lead();
    let stats = inside.stats();
    let totals = [("plans", stats.plans), ("conflicts", stats.conflicts), ("terms", stats.terms)];
    let steps = stats.steps.iter().map(|(kind, count)| (*kind, *count));
    Seen {
        world: inside.world(),
        events: inside.journal().events(),
        lead: Lead {
            is_own: inside.is_leader(),
            is_taken: lead.is_taken,
            address: lead.address.clone(),
        },
        is_loaded: inside.is_loaded(),
        counters: totals.into_iter().chain(steps).collect(),
    }
}
