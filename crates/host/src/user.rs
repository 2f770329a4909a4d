//! Paths of our own: each volume has a thread with the user-space initiator in it, and applications
//! reach it as NBD on a local socket.
//!
//! A target is given to hosts only when it serves, and then every older one is fenced. So the old
//! path is dropped first: there is nothing that it could still be good for.

mod serve;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use disk::Options;
use model::{NodeId, PathHealth, PathItem, PathSeen, VolumeId};
use tokio::sync::Notify;
use tracing::warn;
use uring::Waker;

use self::serve::serve;
use crate::paths::{Device, Held, Paths};

#[derive(Debug)]
pub struct User {
    run: PathBuf,
    options: Options,
    bell: Arc<Notify>,
    volumes: BTreeMap<VolumeId, Attachment>,
}

#[derive(Debug)]
struct Attachment {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    /// It was told to leave, and then to come again: it does when it has left.
    again: Option<PathItem>,
    /// Answers that were counted when `heard` was last asked.
    counted: u64,
}

/// Between a volume's thread and everyone else.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    bell: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    wanted: Wanted,
    waker: Option<Waker>,
    /// The path that is used or tried.
    path: PathSeen,
    device: Option<Device>,
    answers: u64,
    has_left: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Path(PathItem),
    Nothing,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with it left nothing half done: each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, wanted: Wanted) {
        let mut state = self.lock();
        if state.wanted != wanted {
            state.wanted = wanted;
            if let Some(waker) = &state.waker {
                waker.wake();
            }
        }
    }
}

impl User {
    /// Sockets are made in the folder `run`, which nobody else uses.
    pub fn new(run: PathBuf, options: Options, bell: Arc<Notify>) -> Self {
        Self { run, options, bell, volumes: BTreeMap::new() }
    }

    fn begin(&mut self, volume: VolumeId, item: &PathItem) {
        let path = PathSeen { node: item.node, epoch: item.epoch, health: PathHealth::Connecting };
        let state = State {
            wanted: Wanted::Path(item.clone()),
            waker: None,
            path,
            device: None,
            answers: 0,
            has_left: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), bell: Arc::clone(&self.bell) });
        let socket = self.run.join(format!("{volume}.sock"));
        let thread = thread::Builder::new().name("volume".into()).spawn({
            let (shared, options) = (Arc::clone(&shared), self.options.clone());
            move || serve(volume, &shared, &options, &socket)
        });
        let thread = thread.map_err(|error| warn!(%volume, %error, "no thread for a volume")).ok();
        let attachment = Attachment { shared, thread, again: None, counted: 0 };
        self.volumes.insert(volume, attachment);
    }
}

impl Attachment {
    fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }
}

impl Paths for User {
    fn follow(&mut self, volume: VolumeId, path: &PathItem) {
        let Some(attachment) = self.volumes.get_mut(&volume) else {
            return self.begin(volume, path);
        };
        if attachment.shared.lock().wanted == Wanted::Nothing {
            attachment.again = Some(path.clone());
        } else {
            attachment.shared.want(Wanted::Path(path.clone()));
        }
    }

    fn leave(&mut self, volume: VolumeId) {
        if let Some(attachment) = self.volumes.get_mut(&volume) {
            attachment.again = None;
            attachment.shared.want(Wanted::Nothing);
        }
    }

    fn look(&mut self) -> BTreeMap<VolumeId, Held> {
        let over: Vec<VolumeId> =
            self.volumes.iter().filter(|(_, held)| held.is_over()).map(|(id, _)| *id).collect();
        for volume in over {
            let Some(ended) = self.volumes.remove(&volume) else { continue };
            let wanted = ended.shared.lock().wanted.clone();
            // A thread that ended by itself is a fault of ours: its volume is served by another.
            let again = match wanted {
                Wanted::Path(path) => Some(path),
                Wanted::Nothing => ended.again,
            };
            if let Some(path) = again {
                self.begin(volume, &path);
            }
        }
        let held = self.volumes.iter().filter_map(|(volume, attachment)| {
            let state = attachment.shared.lock();
            let held = Held { paths: vec![state.path.clone()], device: state.device.clone() };
            (!state.has_left).then_some((*volume, held))
        });
        held.collect()
    }

    fn heard(&mut self) -> BTreeSet<NodeId> {
        let mut heard = BTreeSet::new();
        for attachment in self.volumes.values_mut() {
            let state = attachment.shared.lock();
            let is_live = state.path.health == PathHealth::Live;
            if is_live && state.answers != attachment.counted {
                heard.insert(state.path.node);
            }
            attachment.counted = state.answers;
        }
        heard
    }

    fn look_every(&self) -> Option<Duration> {
        None
    }
}

/// Ends every volume's thread, and waits for those that end in time.
impl Drop for User {
    fn drop(&mut self) {
        for attachment in self.volumes.values() {
            attachment.shared.want(Wanted::Nothing);
        }
        for attachment in self.volumes.values_mut() {
            if let Some(thread) = attachment.thread.take() {
                let _ = thread.join();
            }
        }
    }
}
