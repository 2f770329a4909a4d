//! Paths: the new one first, the old ones only when the new one is live.

use model::{Epoch, Millis, NodeId, PathFailure, PathHealth, PathItem, PathSeen, Time, VolumeId};

use super::{
    Host,
    initiator::{Initiators, PathOp, PathReply, PathRequest, PathResult},
};
use crate::Ctx;

#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) node: NodeId,
    pub(super) epoch: Epoch,
    pub(super) session: u64,
    pub(super) health: PathHealth,
    /// When something was last sent to connect it, or heard on it.
    at: Time,
}

/// A connection attempt without answer is tried again after this time.
const CONNECT_TIMEOUT: Millis = Millis(1_000);
/// A live path on which nothing is heard for this long failed.
const SILENT_AFTER: Millis = Millis(2_000);
/// A failed path is tried again after this time.
const RECONNECT_AFTER: Millis = Millis(1_000);

/// From a host to every controller in good weather, and from there to the store.
const NEWS_TAKES: Millis = Millis(1_000);

impl Path {
    pub(super) fn is_live(&self) -> bool {
        self.health == PathHealth::Live
    }

    pub(super) fn seen(&self) -> PathSeen {
        PathSeen { node: self.node, epoch: self.epoch, health: self.health }
    }

    fn is(&self, item: &PathItem) -> bool {
        (self.node, self.epoch) == (item.node, item.epoch)
    }

    fn fail(&mut self, ctx: &mut Ctx<'_>, kind: PathFailure) {
        self.at = ctx.now;
        let since = match self.health {
            PathHealth::Failed { since, .. } => since,
            PathHealth::Connecting | PathHealth::Live => ctx.now,
        };
        self.health = PathHealth::Failed { kind, since };
        ctx.out.changed = true;
    }
}

impl Host {
    /// Connects what the config names, and drops the others once that is live.
    pub(super) fn follow_paths(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId) {
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let Some(item) = &attachment.part.path else { return };
        let Some(wanted) = attachment.paths.iter().find(|path| path.is(item)) else {
            self.numbers += 1;
            let path = Path {
                node: item.node,
                epoch: item.epoch,
                session: self.numbers,
                health: PathHealth::Connecting,
                at: ctx.now,
            };
            send(&mut self.initiators, volume, &path, PathOp::Connect);
            attachment.paths.push(path);
            ctx.out.changed = true;
            return;
        };
        if !wanted.is_live() || attachment.paths.len() == 1 {
            return;
        }
        let (kept, dropped): (Vec<_>, Vec<_>) =
            attachment.paths.drain(..).partition(|path| path.is(item));
        attachment.paths = kept;
        ctx.out.changed = true;
        for path in dropped {
            send(&mut self.initiators, volume, &path, PathOp::Disconnect);
            self.resend(ctx, volume, path.session);
        }
    }

    pub(super) fn beat_paths(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId) {
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let mut broken = Vec::new();
        for path in &mut attachment.paths {
            let waited = ctx.now.since(path.at);
            match path.health {
                PathHealth::Live if waited > SILENT_AFTER => {
                    path.fail(ctx, PathFailure::Silent);
                    broken.push(path.session);
                }
                PathHealth::Live => send(&mut self.initiators, volume, path, PathOp::Ping),
                PathHealth::Connecting if waited > CONNECT_TIMEOUT => {
                    path.fail(ctx, PathFailure::Silent);
                }
                PathHealth::Failed { .. } if waited > RECONNECT_AFTER => {
                    self.numbers += 1;
                    path.session = self.numbers;
                    path.at = ctx.now;
                    send(&mut self.initiators, volume, path, PathOp::Connect);
                }
                PathHealth::Connecting | PathHealth::Failed { .. } => {}
            }
        }
        for session in broken {
            self.resend(ctx, volume, session);
        }
    }

    pub(super) fn on_reply(&mut self, ctx: &mut Ctx<'_>, node: NodeId, reply: PathReply) {
        let Some(attachment) = self.attached.get_mut(&reply.volume) else { return };
        let known = attachment.paths.iter_mut().find(|path| path.session == reply.session);
        let Some(path) = known.filter(|path| path.node == node) else { return };
        match reply.result {
            PathResult::Connected => {
                path.health = PathHealth::Live;
                path.at = ctx.now;
                ctx.out.changed = true;
                self.follow_paths(ctx, reply.volume);
                self.follow_share(ctx, reply.volume);
                self.work_now(ctx, reply.volume);
            }
            PathResult::Refused => path.fail(ctx, PathFailure::Refused),
            PathResult::Closed => {
                path.fail(ctx, PathFailure::Reset);
                self.resend(ctx, reply.volume, reply.session);
            }
            _ if path.is_live() => {
                path.at = ctx.now;
                self.heard.insert(node);
                self.done(ctx, reply.volume, reply.session, reply.result);
            }
            _ => {}
        }
    }

    /// A path failed so short a time ago that not everybody can have heard of it.
    pub fn has_just_lost_a_path(&self, now: Time) -> bool {
        let is_fresh = |path: &Path| match path.health {
            PathHealth::Failed { since, .. } => now.since(since) < NEWS_TAKES,
            PathHealth::Connecting | PathHealth::Live => false,
        };
        self.attached.values().flat_map(|attachment| &attachment.paths).any(is_fresh)
    }
}

pub(super) fn send(initiators: &mut Initiators, volume: VolumeId, path: &Path, op: PathOp) {
    let (session, epoch) = (path.session, path.epoch);
    initiators.send(path.node, PathRequest { session, volume, epoch, op });
}
