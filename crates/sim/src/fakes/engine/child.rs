//! The replica's side of a target's session: epochs are enforced here, below every access.

use std::rc::Rc;

use model::{Bytes, Epoch, NodeId};

use super::Engine;
use crate::{
    ChildDone, ChildError, ChildOp, ChildReply, ChildRequest, Ctx, Header, Party,
    fakes::disk::{Disks, ReplicaDisk, SnapshotDisk},
};

/// The one session that a replica has open.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    node: NodeId,
    number: u64,
    epoch: Epoch,
    /// The next request expected: an earlier one is a late copy, a later one means a lost one.
    next: u32,
}

impl Engine {
    pub(super) fn serve_child(
        &mut self,
        disks: &mut Disks,
        ctx: &mut Ctx<'_>,
        from: Party,
        request: &ChildRequest,
    ) -> ChildReply {
        let ChildRequest { session, sequence, volume, replica, epoch, .. } = *request;
        let result = match from {
            Party::Node(node) => self.serve_op(disks, ctx, node, request),
            _ => Err(ChildError::Gone),
        };
        ChildReply { session, sequence, volume, replica, epoch, result }
    }

    fn serve_op(
        &mut self,
        disks: &mut Disks,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        request: &ChildRequest,
    ) -> Result<ChildDone, ChildError> {
        let id = request.replica;
        let held = disks.readable().find(|pool| pool.replicas.contains_key(&id)).map(|p| p.id);
        let pool = held.filter(|pool| self.is_online(*pool)).ok_or(ChildError::Gone)?;
        let disk = disks.disk_of_mut(pool).ok_or(ChildError::Gone)?;
        let free = disk.free();
        let replica =
            disk.pool.as_mut().and_then(|p| p.replicas.get_mut(&id)).ok_or(ChildError::Gone)?;
        if matches!(request.op, ChildOp::Fence) {
            return self.fence(ctx, node, request, replica);
        }
        let stale = replica.epoch;
        let session = self.sessions.get_mut(&id).ok_or(ChildError::Closed)?;
        if session.epoch < stale {
            self.sessions.remove(&id);
            return Err(ChildError::Stale { epoch: stale });
        }
        let own = (session.node, session.epoch, session.number);
        if own != (node, request.epoch, request.session) {
            return Err(ChildError::Closed);
        }
        if session.next != request.sequence {
            if session.next < request.sequence {
                self.sessions.remove(&id);
            }
            return Err(ChildError::Closed);
        }
        session.next += 1;
        perform(replica, free, ctx, request)
    }

    fn fence(
        &mut self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        request: &ChildRequest,
        replica: &mut ReplicaDisk,
    ) -> Result<ChildDone, ChildError> {
        let epoch = request.epoch;
        let other = replica.admitted.is_some_and(|admitted| admitted != node);
        if epoch < replica.epoch || (epoch == replica.epoch && other) {
            return Err(ChildError::Stale { epoch: replica.epoch });
        }
        // A late copy of an older open must not end the session that replaced it.
        let newer = self
            .sessions
            .get(&request.replica)
            .is_some_and(|session| session.epoch == epoch && session.number >= request.session);
        if newer {
            return Err(ChildError::Closed);
        }
        ctx.oracle.admitted(request.replica, replica.epoch, epoch);
        if epoch > replica.epoch {
            ctx.out.changed = true;
        }
        replica.epoch = epoch;
        replica.admitted = Some(node);
        let next = request.sequence + 1;
        let session = Session { node, number: request.session, epoch, next };
        self.sessions.insert(request.replica, session);
        let snapshots = replica.snapshots.iter().map(|(id, s)| (*id, s.attempt)).collect();
        Ok(ChildDone::Header(Header { roster: replica.roster, snapshots }))
    }
}

fn perform(
    replica: &mut ReplicaDisk,
    free: Bytes,
    ctx: &mut Ctx<'_>,
    request: &ChildRequest,
) -> Result<ChildDone, ChildError> {
    match &request.op {
        ChildOp::Fence | ChildOp::Ping => {}
        ChildOp::Read { block } => return Ok(ChildDone::Value(replica.blocks[*block])),
        ChildOp::Write { block, value } => {
            if replica.blocks[*block] == *value {
                return Ok(ChildDone::Done);
            }
            if replica.grows_by_writing(*block) && replica.block_size() > free {
                return Err(ChildError::NoSpace);
            }
            replica.blocks[*block] = *value;
            ctx.oracle.landed(request.volume, request.replica, request.epoch, replica.epoch);
        }
        ChildOp::Roster { roster, members } => {
            if *roster >= replica.roster {
                replica.roster = *roster;
                replica.members = members.as_ref().clone();
                ctx.out.changed = true;
            }
        }
        ChildOp::Freeze { snapshot, name, attempt, size } => {
            if free == Bytes::ZERO {
                return Err(ChildError::NoSpace);
            }
            let (name, blocks) = (name.clone(), replica.blocks);
            let frozen = SnapshotDisk { name, attempt: *attempt, size: *size, blocks };
            replica.snapshots.insert(*snapshot, frozen);
            ctx.out.changed = true;
        }
        ChildOp::Thaw { snapshot } => {
            replica.snapshots.remove(snapshot);
            ctx.out.changed = true;
        }
        ChildOp::Frozen => return Ok(ChildDone::Frozen(Rc::new(replica.snapshots.clone()))),
        ChildOp::CopyFrozen(frozen) => {
            for (id, image) in frozen.iter() {
                replica.snapshots.entry(*id).or_insert_with(|| image.clone());
            }
            ctx.out.changed = true;
        }
    }
    Ok(ChildDone::Done)
}
