//! The store port over the file: requests go to the writer, reads to what it has shown.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use ports::{
    Entry, Kept, Key, LeaseRequest, Page, Revision, Store, StoreError, Txn, TxnOutcome, Watch,
    WatchEvent,
};
use tokio::sync::{oneshot, watch};
use tracing::warn;

use super::{
    file::{StoreFile, exists, write_aside},
    lock::Lock,
    report::{Report, unreachable},
    writer::{Request, Writer, rewrite_at},
};
use crate::{
    limits,
    memory::{Bounds, Core},
};

/// Requests that may wait. One sync takes milliseconds and serves 256 of them: who finds the queue
/// full would wait for long, and is told so instead.
const REQUESTS_MAX: usize = 1024;

/// What may differ between stores; the default is right for all but tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub history: Bounds,
    /// A file grows to twice what it must hold and this much more before it is rewritten.
    pub rewrite_slack_bytes: u64,
}

/// 16 MiB are about 8,000 usual records; smaller files are not worth the pause of a rewrite.
impl Default for Settings {
    fn default() -> Self {
        Self { history: Bounds::default(), rewrite_slack_bytes: 16 * 1024 * 1024 }
    }
}

/// A store in a folder. Clones share it; when the last one goes it is closed, which waits for the
/// sync under way.
#[derive(Clone, Debug)]
pub struct Embedded {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shown: Arc<Mutex<Core>>,
    touched: watch::Receiver<u64>,
    opening: Report,
    /// `None` only while closing.
    requests: Option<SyncSender<Request>>,
    writer: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the store in `folder`, or founds one. Reads all of it, so keep it off async threads.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, Settings::default())
    }

    pub fn open_with(folder: &Path, settings: Settings) -> Result<Self, StoreError> {
        let Settings { history, rewrite_slack_bytes } = settings;
        let lock = Lock::take(folder)?;
        let (file, working, opening) = StoreFile::open(folder, history)?;
        for repair in &opening.repairs {
            warn!(file = %opening.file.display(), %repair, "store repaired");
        }
        let shown = Arc::new(Mutex::new(working.clone()));
        let (sender, requests) = sync_channel(REQUESTS_MAX);
        let (touched, receiver) = watch::channel(0);
        let writer = Writer {
            rewrite_slack_bytes,
            rewrite_at: rewrite_at(&working, rewrite_slack_bytes),
            working,
            shown: shown.clone(),
            file,
            requests,
            touched,
            opened: Instant::now(),
            failed: None,
            lock,
        };
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn(|| writer.run())
            .map_err(|error| unreachable("start a thread for", folder, &error))?;
        let (requests, writer) = (Some(sender), Some(writer));
        let inner = Inner { shown, touched: receiver, opening, requests, writer };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What opening found, and what it repaired.
    pub fn opening(&self) -> &Report {
        &self.inner.opening
    }

    /// Writes all that is acknowledged by now into a new file, which `restore` takes. Blocks.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        if exists(to)? {
            let reason = format!("{} exists already", to.display());
            return Err(StoreError::Invalid { reason });
        }
        let core = self.core().clone();
        write_aside(to, 1, &core)
            .and_then(|aside| aside.put_in_place().map(drop))
            .map_err(|error| unreachable("back up to", to, &error))
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.inner.shown)
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let asked = Instant::now();
        let (reply, answer) = oneshot::channel();
        let requests = self.inner.requests.as_ref().ok_or_else(closed)?;
        requests.try_send(request(reply)).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Unavailable {
                reason: format!("{REQUESTS_MAX} requests wait for the store's disk already"),
            },
            TrySendError::Disconnected(_) => closed(),
        })?;
        // A writer that is gone took the answer with it.
        answer.await.unwrap_or(Err(StoreError::Unknown { waited: asked.elapsed() }))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(Err(_)) = self.writer.take().map(JoinHandle::join) {
            warn!("store writer panicked");
        }
    }
}

fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().expect("nothing panics while it holds the machine")
}

fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the store is closed".to_owned() }
}

impl Store for Embedded {
    type Watch = EmbeddedWatch;

    async fn read(&self, keys: &[Key]) -> Result<(Vec<Entry>, Revision), StoreError> {
        self.core().read(keys)
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> Result<Page, StoreError> {
        self.core().list(prefix, after, limit, at)
    }

    async fn commit(&self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        self.ask(|reply| Request::Commit(txn.clone(), reply)).await
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<EmbeddedWatch, StoreError> {
        self.core().changes(prefix, from, 1)?;
        Ok(EmbeddedWatch {
            shown: self.inner.shown.clone(),
            touched: self.inner.touched.clone(),
            prefix: prefix.to_owned(),
            next: from,
            ready: VecDeque::new(),
        })
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Kept, StoreError> {
        self.ask(|reply| Request::Lease(request, reply)).await
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        self.ask(|reply| Request::Compact(before, reply)).await
    }
}

#[derive(Debug)]
pub struct EmbeddedWatch {
    shown: Arc<Mutex<Core>>,
    touched: watch::Receiver<u64>,
    prefix: String,
    next: Revision,
    ready: VecDeque<WatchEvent>,
}

impl EmbeddedWatch {
    fn look(&mut self) -> Result<(), StoreError> {
        self.touched.mark_unchanged();
        let limit = limits::WATCH_REVISIONS_MAX;
        let changes = lock(&self.shown).changes(&self.prefix, self.next, limit)?;
        self.next = changes.next;
        self.ready.extend(changes.events);
        Ok(())
    }
}

impl Watch for EmbeddedWatch {
    async fn next(&mut self) -> Result<WatchEvent, StoreError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            self.look()?;
            if self.ready.is_empty() {
                self.touched.changed().await.map_err(|_| closed())?;
            }
        }
    }
}
