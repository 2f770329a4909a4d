//! Who waits for whom on one replica.
//!
//! Reads and writes run side by side. What changes the ownership of clusters runs alone on them:
//! it waits until the writes before it are answered, and what comes after it waits in turn.

use model::ReplicaId;

use super::{Access, Op, OpId, Pool, Scope, Work};
use crate::Error;

impl Pool {
    /// Starts the op, now or when nothing before it is in its way.
    pub(super) fn enter(&mut self, op: Op) -> OpId {
        let op = self.ops.insert(op);
        if self.may_start(op) {
            self.start(op);
        } else if let Some(scope) = self.scope(op) {
            let replica = scope.replica;
            self.gates.entry(replica).or_default().push(op);
        }
        op
    }

    fn scope(&self, op: OpId) -> Option<&Scope> {
        self.ops.get(op)?.scope.as_ref()
    }

    fn may_start(&self, op: OpId) -> bool {
        let Some(scope) = self.scope(op) else { return true };
        if scope.access != Access::Alone && self.gates.is_empty() {
            return true;
        }
        let queue = self.gates.get(&scope.replica).map_or(&[][..], |queue| queue.as_slice());
        let before = queue.iter().take_while(|other| **other != op);
        let is_free = before.filter_map(|other| self.scope(*other)).all(|other| {
            let is_alone = scope.access == Access::Alone || other.access == Access::Alone;
            !is_alone || !overlap(scope, other)
        });
        is_free && (scope.access != Access::Alone || !self.writes_run(op, scope))
    }

    fn writes_run(&self, op: OpId, scope: &Scope) -> bool {
        self.ops.iter().any(|(id, other)| {
            id != op
                && other.is_running
                && other.scope.as_ref().is_some_and(|other| {
                    other.access != Access::Read
                        && other.replica == scope.replica
                        && overlap(scope, other)
                })
        })
    }

    fn start(&mut self, op: OpId) {
        let Some(started) = self.ops.get_mut(op) else { return };
        started.is_running = true;
        if let Some(Scope { replica, access: Access::Alone, .. }) = started.scope {
            // What comes later must see it.
            let queue = self.gates.entry(replica).or_default();
            if !queue.contains(&op) {
                queue.push(op);
            }
        }
        self.run(op);
    }

    /// Goes on with an op that is past its gate.
    pub(super) fn run(&mut self, op: OpId) {
        let Some(running) = self.ops.get(op) else { return };
        match running.work {
            Work::Read(_) => self.run_read(op),
            Work::Write(_) => self.run_write(op),
            Work::Zero(_) => self.run_zero(op),
            Work::Change(_) => self.run_change(op),
            Work::Merge(_) => self.run_merge(op),
            Work::Single | Work::Flush { .. } | Work::Recorded | Work::Checkpoint => {}
        }
    }

    /// An op of this replica is over.
    pub(super) fn leave_gate(&mut self, op: OpId, replica: ReplicaId) {
        if let Some(queue) = self.gates.get_mut(&replica) {
            queue.retain(|other| *other != op);
        }
        self.advance(replica);
    }

    fn advance(&mut self, replica: ReplicaId) {
        while let Some(queue) = self.gates.get(&replica) {
            if queue.is_empty() {
                self.gates.remove(&replica);
                return;
            }
            let is_waiting = |op: &OpId| self.ops.get(*op).is_some_and(|op| !op.is_running);
            let next = queue.iter().copied().find(|op| is_waiting(op) && self.may_start(*op));
            let Some(next) = next else { return };
            let is_alone = self.scope(next).is_some_and(|scope| scope.access == Access::Alone);
            if !is_alone && let Some(queue) = self.gates.get_mut(&replica) {
                queue.retain(|op| *op != next);
            }
            if self.catalog.replicas.contains_key(&replica) {
                self.start(next);
            } else {
                self.finish_quietly(next, Error::NotFound);
            }
        }
    }

    /// Without looking at the gate again.
    fn finish_quietly(&mut self, op: OpId, error: Error) {
        let Some(Op { request, scope, .. }) = self.ops.remove(op) else { return };
        if let Some(request) = request {
            self.answer(request, Err(error));
        }
        let queue = scope.and_then(|scope| self.gates.get_mut(&scope.replica));
        if let Some(queue) = queue {
            queue.retain(|other| *other != op);
        }
        if self.merging == Some(op) {
            self.merging = None;
        }
    }
}

fn overlap(one: &Scope, other: &Scope) -> bool {
    one.clusters.start < other.clusters.end && other.clusters.start < one.clusters.end
}
