//! Looks at the copies of a volume all the time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The fewest healthy copies that were seen. Dropping it ends the looking.
pub(crate) struct Watch {
    fewest: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    pub(crate) fn start(asking: Asking, volume: &'static str) -> Self {
        let fewest = Arc::new(AtomicUsize::new(usize::MAX));
        let shared = Arc::clone(&fewest);
        let task = tokio::spawn(async move {
            loop {
                // A controller that is away says nothing, and the next one is asked.
                if let Ok(shown) = asking.volume(volume).await {
                    shared.fetch_min(shown.status.healthy_copies, Ordering::Relaxed);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        Self { fewest, task }
    }

    pub(crate) fn fewest(&self) -> usize {
        self.fewest.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
