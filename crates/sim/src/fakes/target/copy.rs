//! Making copies equal: resync after an unclean stop, rebuild of one that missed writes.
//!
//! One block at a time and one per beat, so that it takes long enough for something to happen.

use std::collections::BTreeSet;

use model::ReplicaId;

use super::{
    Target,
    child::Purpose,
    io::{Active, Lane},
};
use crate::{ChildOp, Ctx, fakes::disk::BLOCKS};

#[derive(Debug)]
pub(super) struct Copying {
    /// Read from here; `None` once it answered.
    source: Option<ReplicaId>,
    to: BTreeSet<ReplicaId>,
    /// Written to, and since then no longer to be rebuilt: their answers are awaited and prove
    /// nothing, because they get no writes meanwhile.
    withdrawn: BTreeSet<ReplicaId>,
}

impl Copying {
    pub(super) fn is_over(&self) -> bool {
        self.source.is_none() && self.to.is_empty() && self.withdrawn.is_empty()
    }

    pub(super) fn forget(&mut self, id: ReplicaId) {
        self.to.remove(&id);
        self.withdrawn.remove(&id);
        if self.source == Some(id) {
            self.source = None;
            self.to.clear();
        }
    }

    fn withdraw(&mut self, id: ReplicaId) {
        if self.to.remove(&id) && self.source.is_none() {
            self.withdrawn.insert(id);
        }
    }
}

impl Target {
    /// Whether blocks are to be copied to this one: it is not what the others are made equal to,
    /// and it may be used.
    pub(super) fn is_copied_to(&self, id: ReplicaId) -> bool {
        if !self.is_open(id) {
            return false;
        }
        if self.record.is_recorded_healthy(id) {
            return self.record.resync_source.is_some_and(|source| source != id);
        }
        self.item.children.iter().any(|child| child.replica == id && child.rebuild && !child.retire)
    }

    /// It gets no writes from now on: what was copied to it, or is on its way there, is old by the
    /// time that it is rebuilt again.
    pub(super) fn withdraw_copies(&mut self, id: ReplicaId) {
        if let Some(child) = self.children.get_mut(&id) {
            child.copied = [false; BLOCKS];
        }
        for lane in &mut self.lanes {
            if let Some(Active::Copy(copying)) = &mut lane.active {
                copying.withdraw(id);
            }
        }
    }

    pub(super) fn start_copies(&mut self, ctx: &mut Ctx<'_>) {
        let copying = self.lanes.iter().any(|lane| matches!(lane.active, Some(Active::Copy(_))));
        let busy = self.change.is_some() || self.freeze.is_some() || self.is_held();
        if !self.is_serving() || busy || copying {
            return;
        }
        let Some(source) = self.source() else { return };
        let next = (0..BLOCKS).filter(|block| self.lanes[*block].is_idle()).find_map(|block| {
            let lacking = self.children.iter().filter(|(_, child)| !child.copied[block]);
            let to: BTreeSet<_> =
                lacking.map(|(id, _)| *id).filter(|id| self.is_copied_to(*id)).collect();
            (!to.is_empty()).then_some((block, to))
        });
        if let Some((block, to)) = next
            && self.ask(ctx, source, ChildOp::Read { block }, Purpose::CopyRead { block })
        {
            let copying = Copying { source: Some(source), to, withdrawn: BTreeSet::new() };
            self.lanes[block].active = Some(Active::Copy(copying));
        }
    }

    pub(super) fn copy_read(&mut self, ctx: &mut Ctx<'_>, block: usize, value: u64) {
        let Lane { active: Some(Active::Copy(copying)), .. } = &mut self.lanes[block] else {
            return;
        };
        copying.source = None;
        let to: Vec<_> = copying.to.iter().copied().collect();
        for id in to {
            let op = ChildOp::Write { block, value };
            if !self.ask(ctx, id, op, Purpose::CopyWrite { block }) {
                self.forget_in_lanes(id);
            }
        }
    }

    pub(super) fn copy_written(&mut self, ctx: &mut Ctx<'_>, block: usize, id: ReplicaId) {
        let Lane { active: Some(Active::Copy(copying)), .. } = &mut self.lanes[block] else {
            return;
        };
        copying.withdrawn.remove(&id);
        if copying.to.remove(&id)
            && let Some(child) = self.children.get_mut(&id)
        {
            child.copied[block] = true;
            ctx.out.changed = true;
        }
    }
}
