//! The workload: one write and one read at a time per volume, sent again until they are answered.

use model::{Millis, Time, VolumeId};

use super::{
    Host,
    initiator::{PathOp, PathResult},
    paths,
};
use crate::{Ctx, Timer, fakes::disk::BLOCKS};

#[derive(Debug, Default)]
pub(super) struct Work {
    write: Option<Op>,
    read: Option<Op>,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    tag: u64,
    block: usize,
    /// What is written, from when it is first sent: another host may write until this one has a
    /// path. For a read what must at least be found.
    value: Option<u64>,
    /// The session it was sent on, until that is lost.
    sent: Option<(u64, Time)>,
}

/// Between two pieces of work of one volume.
const WORK_MIN: u64 = 100;
const WORK_MAX: u64 = 900;
/// Work without answer fails its path.
const WORK_TIMEOUT: Millis = Millis(2_000);

impl Host {
    /// Starts the next piece of work.
    pub(super) fn work(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId) {
        let index = self.index;
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let span = ctx.random.between(WORK_MIN, WORK_MAX);
        ctx.wake_in(Millis(span * ctx.oracle.pace), Timer::Work(volume));
        let serves = attachment.share.as_ref().is_none_or(super::share::Share::is_mounted);
        if !serves || attachment.part.share.is_some() != attachment.share.is_some() {
            return;
        }
        let any = usize::try_from(ctx.random.below(BLOCKS as u64)).unwrap_or(0);
        self.numbers += 1;
        let tag = self.numbers;
        if attachment.work.write.is_none() && ctx.random.chance(600) {
            // Where several hosts write at once, each has a block of its own.
            let block = if ctx.oracle.is_shared(volume) { index % BLOCKS } else { any };
            attachment.work.write = Some(Op { tag, block, value: None, sent: None });
        } else if attachment.work.read.is_none() {
            let value = Some(ctx.oracle.floor(volume, any));
            attachment.work.read = Some(Op { tag, block: any, value, sent: None });
        }
        self.work_now(ctx, volume);
    }

    /// Sends what is not on its way through one of the live paths.
    pub(super) fn work_now(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId) {
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let live: Vec<_> = attachment.paths.iter().filter(|path| path.is_live()).cloned().collect();
        let Some(path) = ctx.random.pick(&live) else { return };
        let sent = Some((path.session, ctx.now));
        if let Some(op) = attachment.work.write.as_mut().filter(|op| op.sent.is_none()) {
            op.sent = sent;
            let Op { tag, block, .. } = *op;
            let value = *op.value.get_or_insert_with(|| ctx.oracle.issue(volume, block));
            paths::send(&mut self.initiators, volume, path, PathOp::Write { tag, block, value });
        }
        if let Some(op) = attachment.work.read.as_mut().filter(|op| op.sent.is_none()) {
            op.sent = sent;
            let Op { tag, block, .. } = *op;
            paths::send(&mut self.initiators, volume, path, PathOp::Read { tag, block });
        }
    }

    /// The session is over: what was on its way there goes elsewhere.
    pub(super) fn resend(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId, session: u64) {
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let work = &mut attachment.work;
        for op in [&mut work.write, &mut work.read].into_iter().flatten() {
            if op.sent.is_some_and(|(sent, _)| sent == session) {
                op.sent = None;
            }
        }
        self.work_now(ctx, volume);
    }

    pub(super) fn beat_work(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId) {
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let work = &attachment.work;
        let late = |sent: Time| ctx.now.since(sent) > WORK_TIMEOUT;
        let held: Vec<_> = [&work.write, &work.read]
            .into_iter()
            .flatten()
            .filter_map(|op| op.sent.filter(|(_, at)| late(*at)))
            .collect();
        // A held command alone does not fail a path that answers keep-alives; with another live
        // path it is tried there.
        let others = attachment.paths.iter().filter(|path| path.is_live()).count() > 1;
        if others {
            for (session, _) in held {
                self.resend(ctx, volume, session);
            }
        } else {
            self.work_now(ctx, volume);
        }
    }

    pub(super) fn done(
        &mut self,
        ctx: &mut Ctx<'_>,
        volume: VolumeId,
        session: u64,
        result: PathResult,
    ) {
        let host = self.host;
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let on_session = |op: &Op| op.sent.is_some_and(|(sent, _)| sent == session);
        match result {
            PathResult::Wrote { tag } => {
                let write = attachment.work.write.take_if(|op| op.tag == tag && on_session(op));
                let path = attachment.paths.iter().find(|path| path.session == session);
                if let Some((op, path)) = write.zip(path)
                    && let Some(value) = op.value
                {
                    ctx.oracle.acked(ctx.now, volume, path.epoch, op.block, value);
                }
            }
            PathResult::NoSpace { tag } => {
                // The application hears of it and goes on: that write never happened.
                attachment.work.write.take_if(|op| op.tag == tag && on_session(op));
            }
            PathResult::Value { tag, value } => {
                let read = attachment.work.read.take_if(|op| op.tag == tag && on_session(op));
                if let Some(op) = read {
                    let floor = op.value.unwrap_or_default();
                    ctx.oracle.read(volume, op.block, floor, value, host);
                }
            }
            _ => {}
        }
    }
}
