//! What is judged of a node alone: it answers configs and tells news in time, whatever one of
//! its disks does.

use std::collections::BTreeMap;

use model::{Bytes, Epoch, Inventory, Millis, ReplicaId, Time};
use storage_node::AuditEvent;

use super::NodeProcess;
use crate::{Ctx, names};

/// A config waits a second for the work that it began; twice that is late.
const ANSWERED_WITHIN: Millis = Millis(2_500);
/// News is gathered for some milliseconds.
const TOLD_WITHIN: Millis = Millis(2_000);
/// A process that heard its own clock this much late was not running: nothing is judged by that
/// time.
const BEAT_LATE: Millis = Millis(900);

#[derive(Debug, Default)]
pub(super) struct Watch {
    last_beat: Time,
    /// The newest inventory that was told.
    told: u64,
    /// Since when it differs from what is.
    differs_since: Option<Time>,
    /// The highest epoch that each replica answered to have shut older ones out for.
    fenced: BTreeMap<ReplicaId, Epoch>,
}

impl NodeProcess {
    pub(super) fn judge(&mut self, ctx: &mut Ctx<'_>) {
        let was_away = ctx.now.since(self.watch.last_beat) > BEAT_LATE;
        self.watch.last_beat = ctx.now;
        if was_away {
            self.watch.differs_since = None;
            self.control.applying.values_mut().for_each(|(_, since)| *since = ctx.now);
        }
        self.judge_answers(ctx);
        self.judge_news(ctx);
    }

    /// After a fence no older epoch changes a replica.
    pub(super) fn judge_audit(&mut self, ctx: &mut Ctx<'_>) {
        for event in self.machine.take_audit() {
            match event {
                AuditEvent::Fenced { replica, epoch } => {
                    let fenced = self.watch.fenced.entry(replica).or_default();
                    *fenced = epoch.max(*fenced);
                }
                AuditEvent::Changed { replica, epoch } => {
                    let fenced = self.watch.fenced.get(&replica).copied().unwrap_or_default();
                    if epoch < fenced {
                        let replica = names::label(replica.0);
                        let words = format!("epoch {epoch} changed {replica}, fenced by {fenced}");
                        ctx.oracle.break_promise("no-write-below-the-epoch", words);
                    }
                }
            }
        }
    }

    fn judge_answers(&self, ctx: &mut Ctx<'_>) {
        let late = |(_, since): &&(_, Time)| ctx.now.since(*since) > ANSWERED_WITHIN;
        if let Some((from, since)) = self.control.applying.values().find(late) {
            let (node, waited) = (names::label(self.node.0), ctx.now.since(*since));
            let words = format!("{node} did not answer a config of {from} for {waited}");
            ctx.oracle.break_promise("configs-are-answered-in-time", words);
        }
    }

    fn judge_news(&mut self, ctx: &mut Ctx<'_>) {
        let Some(told) = &self.control.told else { return };
        let is = coarse(self.machine.look());
        // Whatever was so until then is told: where much goes on, each one differs from the next.
        let is_newer = core::mem::replace(&mut self.watch.told, told.sequence) != told.sequence;
        if is_newer || is == coarse(Inventory::clone(told)) {
            self.watch.differs_since = None;
            return;
        }
        let since = *self.watch.differs_since.get_or_insert(ctx.now);
        if ctx.now.since(since) > TOLD_WITHIN {
            let told = coarse(Inventory::clone(told));
            let what = if told.generation != is.generation {
                format!("generation {} after {}", is.generation, told.generation)
            } else if told.pools != is.pools {
                format!("pools {:?}, told {:?}", is.pools, told.pools)
            } else if told.targets != is.targets {
                format!("targets {:?}, told {:?}", is.targets, told.targets)
            } else {
                format!("replicas {:?}, told {:?}", is.replicas, told.replicas)
            };
            let words = format!("{} does not tell of {what}", names::label(self.node.0));
            ctx.oracle.break_promise("news-is-told-in-time", words);
        }
    }
}

/// Used space is told in steps, since every write would be news otherwise. What is carried is
/// compared by its revision.
fn coarse(mut inventory: Inventory) -> Inventory {
    inventory.sequence = 0;
    for pool in inventory.pools.values_mut() {
        pool.used = Bytes(pool.used.0 / (pool.capacity.0 / 128).max(1));
        pool.carried = None;
    }
    for replica in inventory.replicas.values_mut() {
        replica.carried = None;
    }
    inventory
}
