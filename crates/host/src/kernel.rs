//! The kernel's own NVMe/TCP: controllers are made, removed and watched through its files.
//!
//! The new controller comes first and the old one goes when the new one is live: the device on top
//! of both (native multipath) stays. Connections outlive this process; a host that starts again
//! finds them. The kernel tells of no lost connection by itself, so its files are looked at.

mod sysfs;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use model::{Epoch, HostId, NodeId, PathFailure, PathHealth, PathItem, PathSeen, Time, VolumeId};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use self::sysfs::{Controller, State, Tree};
use crate::{
    Local, limits,
    paths::{Device, Held, Paths},
};

#[derive(Debug, thiserror::Error)]
#[error(
    "this kernel has no NVMe over fabrics (there is no {}): load the module nvme-tcp, or serve \
     volumes from user space", missing.display()
)]
pub struct NoKernel {
    pub missing: PathBuf,
}

#[derive(Debug)]
pub struct Kernel {
    tree: Tree,
    host: HostId,
    host_nqn: String,
    give_up: Duration,
    bell: Arc<Notify>,
    wanted: BTreeMap<VolumeId, Wish>,
    leaving: BTreeSet<VolumeId>,
    /// Which target a controller was made for. Unknown if another process made it.
    made_for: BTreeMap<(VolumeId, SocketAddr), (NodeId, Epoch)>,
    /// Since when a controller is not live that was.
    lost: BTreeMap<String, Time>,
    was_live: BTreeSet<String>,
    /// Controllers that were replaced, and since when.
    replaced: BTreeMap<String, Instant>,
    /// How long a replaced one that is still live may stay.
    patience: Duration,
}

#[derive(Debug)]
struct Wish {
    item: PathItem,
    /// Where that is, once it is known.
    at: Option<SocketAddr>,
    attempt: Option<Attempt>,
}

/// One try to connect, in a thread of its own: the kernel answers when it has connected or not.
#[derive(Debug)]
struct Attempt {
    outcome: Arc<Mutex<Option<Outcome>>>,
    began: Instant,
}

#[derive(Clone, Debug)]
struct Outcome {
    at: Option<SocketAddr>,
    failed: Option<(PathFailure, Time)>,
}

impl Kernel {
    /// On a kernel that can; `before` is what an earlier life of this host wrote down.
    pub fn open(
        root: PathBuf,
        host: HostId,
        host_nqn: String,
        give_up: Duration,
        before: Option<&Local>,
        bell: Arc<Notify>,
    ) -> Result<Self, NoKernel> {
        let tree = Tree::new(root);
        if !tree.is_there() {
            return Err(NoKernel { missing: tree.fabrics() });
        }
        let mut kernel = Self {
            tree,
            host,
            host_nqn,
            give_up,
            bell,
            wanted: BTreeMap::new(),
            leaving: BTreeSet::new(),
            made_for: BTreeMap::new(),
            lost: BTreeMap::new(),
            was_live: BTreeSet::new(),
            replaced: BTreeMap::new(),
            patience: limits::REPLACED_FOR,
        };
        kernel.remember(before);
        Ok(kernel)
    }

    /// A controller that the kernel has kept belongs to the target that was written down, if its
    /// number agrees.
    fn remember(&mut self, before: Option<&Local>) {
        let Some(before) = before else { return };
        for (volume, controller) in self.ours() {
            let known = before.volumes.get(&volume).into_iter().flat_map(|held| &held.paths);
            let mut known = known.filter(|path| controller.is_of(path.epoch));
            if let (Some(at), Some(path)) = (controller.address, known.next_back()) {
                self.made_for.insert((volume, at), (path.node, path.epoch));
            }
        }
    }

    /// Every controller that this host has of a volume of ours.
    fn ours(&self) -> Vec<(VolumeId, Controller)> {
        let all = self.tree.controllers().into_iter();
        let ours = all.filter(|controller| controller.host_nqn == self.host_nqn);
        ours.filter_map(|controller| Some((controller.volume?, controller))).collect()
    }

    fn settle(&mut self, volume: VolumeId, controllers: &[&Controller]) {
        if self.leaving.contains(&volume) {
            for controller in controllers {
                self.remove(volume, controller);
            }
            if controllers.is_empty() {
                self.leaving.remove(&volume);
            }
            return;
        }
        let Some(wish) = self.wanted.get_mut(&volume) else { return };
        if let Some(outcome) = wish.outcome() {
            wish.at = wish.at.or(outcome.at);
        }
        let (epoch, node) = (wish.item.epoch, wish.item.node);
        let there = controllers.iter().find(|c| wish.at.is_some() && c.address == wish.at);
        if let Some(wanted) = there {
            // It may have been replaced before the target came back to its node.
            self.replaced.remove(&wanted.name);
        }
        match there {
            None => {
                let again = wish.attempt.as_ref().is_none_or(Attempt::is_to_be_repeated);
                if again {
                    self.connect(volume);
                }
            }
            Some(controller) if controller.state == State::Live && controller.is_of(epoch) => {
                if let Some(at) = controller.address {
                    self.made_for.insert((volume, at), (node, epoch));
                }
                // Without its last path the device would be gone, and with it the application's.
                for old in controllers.iter().filter(|old| old.name != controller.name) {
                    if controller.is_joined {
                        self.replace(volume, old);
                    }
                }
            }
            // The old target was at the same address: the session with it is of no use any more.
            Some(controller) if controller.state == State::Live => {
                info!(%volume, %epoch, "resetting a path to a target that is gone");
                self.tell(volume, controller, Tree::reset);
            }
            Some(_) => {}
        }
    }

    /// One that is live is left alone for a while. Its target is fenced and may be silent: the
    /// kernel sees that by itself and gives what is under way to the other path, but not while it
    /// removes a path, which then waits for answers half a minute.
    fn replace(&mut self, volume: VolumeId, old: &Controller) {
        let since = self.replaced.entry(old.name.clone()).or_insert_with(Instant::now);
        if old.state != State::Live || since.elapsed() >= self.patience {
            self.remove(volume, old);
        }
    }

    fn remove(&self, volume: VolumeId, controller: &Controller) {
        if matches!(controller.state, State::Live | State::Coming) {
            self.tell(volume, controller, Tree::delete);
        }
    }

    /// In a thread of its own: the kernel answers when it is done, and other volumes cannot wait.
    fn tell(
        &self,
        volume: VolumeId,
        to: &Controller,
        what: fn(&Tree, &Controller) -> io::Result<()>,
    ) {
        let (tree, to, bell) = (self.tree.clone(), to.clone(), Arc::clone(&self.bell));
        let telling = move || {
            // One that is gone or under way already is told by another.
            if let Err(error) = what(&tree, &to) {
                debug!(%volume, controller = to.name, %error, "the kernel refused a change");
            }
            bell.notify_one();
        };
        if let Err(error) = thread::Builder::new().name("change".into()).spawn(telling) {
            warn!(%volume, %error, "no thread to change a path with");
        }
    }

    fn connect(&mut self, volume: VolumeId) {
        let Some(wish) = self.wanted.get_mut(&volume) else { return };
        let outcome = Arc::new(Mutex::new(None));
        wish.attempt = Some(Attempt { outcome: Arc::clone(&outcome), began: Instant::now() });
        let (address, tree, bell) =
            (wish.item.address.clone(), self.tree.clone(), Arc::clone(&self.bell));
        let common = format!(
            "nqn={},hostnqn={},hostid={},keep_alive_tmo={},reconnect_delay=1,ctrl_loss_tmo={}",
            volume.nqn(),
            self.host_nqn,
            self.host,
            limits::KEEP_ALIVE.as_secs(),
            self.give_up.as_secs(),
        );
        let connecting = move || {
            let done = attempt(&tree, &address, &common);
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            bell.notify_one();
        };
        if let Err(error) = thread::Builder::new().name("connect".into()).spawn(connecting) {
            warn!(%volume, %error, "no thread to connect with");
        }
    }

    fn held(&mut self, volume: VolumeId, controllers: &[&Controller]) -> Held {
        let mut paths: Vec<PathSeen> = Vec::new();
        // One that is replaced counts no more; only who leaves waits until it is gone.
        let is_leaving = self.leaving.contains(&volume);
        let replaced = self.replaced.clone();
        let counts = |of: &&&Controller| is_leaving || !replaced.contains_key(&of.name);
        for controller in controllers.iter().filter(counts) {
            let wanted = self
                .wanted
                .get(&volume)
                .filter(|wish| wish.at.is_some() && wish.at == controller.address);
            let made = controller.address.and_then(|at| self.made_for.get(&(volume, at)).copied());
            let (node, epoch) = match wanted {
                Some(wish) if controller.is_of(wish.item.epoch) => {
                    (wish.item.node, wish.item.epoch)
                }
                _ => made.unwrap_or((NodeId::from_u128(0), Epoch::ZERO)),
            };
            let health = self.health(controller);
            paths.push(PathSeen { node, epoch, health });
        }
        if let Some(wish) = self.wanted.get(&volume)
            && !paths.iter().any(|path| path.epoch == wish.item.epoch)
        {
            let (node, epoch) = (wish.item.node, wish.item.epoch);
            let failed = wish.outcome().and_then(|outcome| outcome.failed);
            let health = failed
                .map_or(PathHealth::Connecting, |(kind, since)| PathHealth::Failed { kind, since });
            paths.push(PathSeen { node, epoch, health });
        }
        let device = self.tree.device(volume).map(|path| Device::Block { path });
        Held { paths, device }
    }

    fn health(&mut self, controller: &Controller) -> PathHealth {
        let is_known = self.was_live.contains(&controller.name);
        if controller.state == State::Live && (controller.is_joined || is_known) {
            self.lost.remove(&controller.name);
            self.was_live.insert(controller.name.clone());
            return PathHealth::Live;
        }
        if !is_known {
            return PathHealth::Connecting;
        }
        let since = *self.lost.entry(controller.name.clone()).or_insert_with(wall);
        PathHealth::Failed { kind: PathFailure::Reset, since }
    }
}

impl Wish {
    fn outcome(&self) -> Option<Outcome> {
        let attempt = self.attempt.as_ref()?;
        attempt.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Attempt {
    /// It ended without success, a while ago.
    fn is_to_be_repeated(&self) -> bool {
        let ended = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        ended && self.began.elapsed() >= limits::TRY_AGAIN
    }
}

fn attempt(tree: &Tree, address: &str, common: &str) -> Outcome {
    let at = address.to_socket_addrs().ok().and_then(|mut found| found.next());
    let Some(to) = at else {
        return Outcome { at, failed: Some((PathFailure::Reset, wall())) };
    };
    let options = format!("transport=tcp,traddr={},trsvcid={},{common}", to.ip(), to.port());
    let failed = tree.connect(&options).err().map(|error| {
        warn!(address, %error, "the kernel could not connect");
        (kind(&error), wall())
    });
    Outcome { at, failed }
}

fn kind(error: &io::Error) -> PathFailure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => PathFailure::Reset,
        io::ErrorKind::TimedOut => PathFailure::Silent,
        _ => PathFailure::Refused,
    }
}

impl Paths for Kernel {
    fn follow(&mut self, volume: VolumeId, path: &PathItem) {
        self.leaving.remove(&volume);
        if self.wanted.get(&volume).is_some_and(|wish| wish.item == *path) {
            return;
        }
        let at = path.address.parse().ok();
        self.wanted.insert(volume, Wish { item: path.clone(), at, attempt: None });
    }

    fn leave(&mut self, volume: VolumeId) {
        self.wanted.remove(&volume);
        self.leaving.insert(volume);
    }

    fn look(&mut self) -> BTreeMap<VolumeId, Held> {
        let ours = self.ours();
        let names: BTreeSet<&String> = ours.iter().map(|(_, c)| &c.name).collect();
        self.lost.retain(|name, _| names.contains(name));
        self.was_live.retain(|name| names.contains(name));
        self.replaced.retain(|name, _| names.contains(name));
        let mut volumes: BTreeSet<VolumeId> = ours.iter().map(|(volume, _)| *volume).collect();
        volumes.extend(self.wanted.keys().chain(&self.leaving));
        let mut all = BTreeMap::new();
        for volume in volumes {
            let own = ours.iter().filter(|(of, _)| *of == volume).map(|(_, c)| c);
            let own: Vec<&Controller> = own.collect();
            self.settle(volume, &own);
            let held = self.held(volume, &own);
            if !held.paths.is_empty() {
                all.insert(volume, held);
            }
        }
        all
    }

    /// The kernel does not say which of its paths answered.
    fn heard(&mut self) -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    fn look_every(&self) -> Option<Duration> {
        Some(limits::LOOK_EVERY)
    }
}

fn wall() -> Time {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
