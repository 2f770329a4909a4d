//! Everything that the store holds, and everything that happens to it from then on.

use model::Revision;
use ports::{Entry, Store, StoreError, Watch, WatchEvent};
use store::limits::PAGE_ENTRIES_MAX;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use crate::limits::{FOLLOW_AGAIN, TELL_AGAIN};

#[derive(Debug)]
pub(crate) enum Followed {
    Event(WatchEvent),
    /// History is missing, or another store answers: everything must be loaded again.
    Lost,
}

/// The whole store at one revision. Tried until it works: there is nothing to do without it.
pub(crate) async fn load<S: Store>(store: S) -> (Vec<Entry>, Revision) {
    let mut told: Option<Instant> = None;
    loop {
        match list(&store).await {
            Ok(loaded) => return loaded,
            Err(error) => {
                // Often enough for somebody who looks now, and not one line per try.
                if told.is_none_or(|at| at.elapsed() >= TELL_AGAIN) {
                    told = Some(Instant::now());
                    warn!(%error, "loading the store failed: trying until it works");
                }
                sleep(FOLLOW_AGAIN).await;
            }
        }
    }
}

async fn list<S: Store>(store: &S) -> Result<(Vec<Entry>, Revision), StoreError> {
    let mut entries = Vec::new();
    let mut after: Option<String> = None;
    let mut revision = None;
    loop {
        let page = store.list("", after.as_deref(), PAGE_ENTRIES_MAX, revision).await?;
        revision = Some(page.revision);
        entries.extend(page.entries);
        after = page.next;
        if after.is_none() {
            return Ok((entries, page.revision));
        }
    }
}

/// Tells every change from `next` on, in order and without gaps, until nobody listens or history is
/// lost.
pub(crate) async fn follow<S: Store>(store: S, mut next: Revision, to: mpsc::Sender<Followed>) {
    loop {
        match watch(&store, &mut next, &to).await {
            Ok(()) => return,
            Err(StoreError::Compacted { oldest }) => {
                debug!(%oldest, "watched history is compacted");
                break;
            }
            Err(error) => warn!(%error, "watching the store failed"),
        }
        sleep(FOLLOW_AGAIN).await;
        if is_set_back(&store, next).await {
            warn!(revision = %next, "the store is older than what it has shown");
            break;
        }
    }
    // Nobody who could be told is left when this fails.
    let _ = to.send(Followed::Lost).await;
}

/// Ends well when nobody listens any more.
async fn watch<S: Store>(
    store: &S,
    next: &mut Revision,
    to: &mpsc::Sender<Followed>,
) -> Result<(), StoreError> {
    let mut watch = store.watch("", *next).await?;
    loop {
        let event = watch.next().await?;
        *next = event.revision.next();
        if to.send(Followed::Event(event)).await.is_err() {
            return Ok(());
        }
    }
}

/// A store that was restored or replaced gives the same revisions again to other things.
async fn is_set_back<S: Store>(store: &S, next: Revision) -> bool {
    let key = model::Key::Cluster.to_string();
    match store.read(&[key]).await {
        Ok((_, revision)) => revision.next() < next,
        Err(_) => false,
    }
}
