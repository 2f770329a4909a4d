//! One volume in its thread: connect, serve as NBD, follow, leave.

use std::{
    fs,
    net::{SocketAddr, ToSocketAddrs as _},
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use disk::{Client, Lost, Options, PathState, serve_nbd};
use model::{PathFailure, PathHealth, PathItem, PathSeen, Time, VolumeId};
use tracing::warn;
use uring::Listener;

use super::{Shared, Wanted};
use crate::{limits, paths::Device};

/// Runs until nothing is wanted of the volume any more, and says so when it has left.
pub(super) fn serve(volume: VolumeId, shared: &Shared, options: &Options, socket: &Path) {
    loop {
        let mut course = Course { volume, shared, path: None, failed: None };
        match course.run(options, socket) {
            Ok(()) => break,
            Err(error) => warn!(%volume, %error, "serving a volume failed"),
        }
        course.note(PathHealth::Failed { kind: PathFailure::Reset, since: wall() }, 0);
        if shared.lock().wanted == Wanted::Nothing {
            break;
        }
        thread::sleep(limits::TRY_AGAIN);
    }
    // Another process may have it only if this one has been killed, and then it is not here.
    let _ = fs::remove_file(socket);
    let mut state = shared.lock();
    state.has_left = true;
    state.device = None;
    drop(state);
    shared.bell.notify_one();
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Client(#[from] disk::ClientError),
    #[error(transparent)]
    Serve(#[from] serve_nbd::NbdServeError),
    #[error("the socket cannot be made: {0}")]
    Socket(#[from] uring::IoError),
}

struct Course<'a> {
    volume: VolumeId,
    shared: &'a Shared,
    /// Where the client is.
    path: Option<PathItem>,
    /// When the path was lost, on both clocks: a report must not change while nothing does.
    failed: Option<(Instant, Time)>,
}

impl Course<'_> {
    fn run(&mut self, options: &Options, socket: &Path) -> Result<(), ServeError> {
        let mut client = Client::open(&self.volume.nqn(), options.clone())?;
        self.shared.lock().waker = Some(client.waker());
        let (mut done, mut completions) = (Vec::new(), Vec::new());
        while self.goes_on(&mut client) && client.state() != PathState::Live {
            client.step(&mut done, &mut completions)?;
        }
        if self.goes_on(&mut client) {
            // A process that was killed leaves its socket behind.
            let _ = fs::remove_file(socket);
            let listener = Listener::local(socket)?;
            let uri = format!("nbd+unix:///?socket={}", socket.display());
            self.shared.lock().device = Some(Device::Nbd { uri });
            self.shared.bell.notify_one();
            serve_nbd::run_while(&mut client, listener, |client, _| self.goes_on(client))?;
        }
        drain(&mut client)?;
        Ok(())
    }

    /// Follows what is wanted, notes what is seen; false when it is to leave.
    fn goes_on(&mut self, client: &mut Client) -> bool {
        let wanted = self.shared.lock().wanted.clone();
        match wanted {
            Wanted::Nothing => return false,
            Wanted::Path(item) if self.path.as_ref() != Some(&item) => self.follow(client, item),
            Wanted::Path(_) => {}
        }
        let health = self.health(client.state());
        self.note(health, client.answers);
        true
    }

    /// An address that has no meaning now is asked for again at the next turn.
    fn follow(&mut self, client: &mut Client, item: PathItem) {
        let found: Vec<SocketAddr> =
            item.address.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        if found.is_empty() {
            warn!(volume = %self.volume, address = item.address, "an address cannot be resolved");
            return;
        }
        client.follow(found);
        self.path = Some(item);
    }

    fn health(&mut self, state: PathState) -> PathHealth {
        let PathState::Lost { why, since } = state else {
            self.failed = None;
            let is_live = state == PathState::Live;
            return if is_live { PathHealth::Live } else { PathHealth::Connecting };
        };
        let kind = match why {
            Lost::Reset => PathFailure::Reset,
            Lost::Silent => PathFailure::Silent,
            Lost::Refused => PathFailure::Refused,
        };
        let at = match self.failed {
            Some((known, at)) if known == since => at,
            _ => Time(wall().0.saturating_sub(millis(since.elapsed()))),
        };
        self.failed = Some((since, at));
        PathHealth::Failed { kind, since: at }
    }

    fn note(&self, health: PathHealth, answers: u64) {
        let mut state = self.shared.lock();
        state.answers = answers;
        let Some(path) = &self.path else { return };
        let path = PathSeen { node: path.node, epoch: path.epoch, health };
        if state.path != path {
            state.path = path;
            drop(state);
            self.shared.bell.notify_one();
        }
    }
}

/// What is under way may end; no more than that, and not for long.
fn drain(client: &mut Client) -> Result<(), disk::ClientError> {
    let end = Instant::now() + limits::DRAIN_WITHIN;
    let mut done = Vec::new();
    while client.in_flight() > 0 && client.state() == PathState::Live && Instant::now() < end {
        client.wait(&mut done, Some(end))?;
        done.clear();
    }
    // Without an address it has no session either: they are closed before anyone is told.
    client.follow(Vec::new());
    Ok(())
}

fn wall() -> Time {
    Time(millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
