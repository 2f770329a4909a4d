//! What must hold: after each change of the record, after each import, and at rest.

use model::Membership;
use pool::{Image, Request};

use super::{
    disk_ops::Asker,
    world::{WINDOWS, World, replica_id},
};

impl World {
    /// The record may have changed.
    pub(super) fn recorded(&mut self, before: &Membership) {
        let record = &self.store.record;
        if record.revision == before.revision {
            return;
        }
        let (epoch, lost) = (record.epoch.0, record.unflushed_lost);
        let words = describe(record);
        self.note(|| format!("the record says {words}"));
        let is_claim = before.owner.is_none() && self.store.record.owner.is_some();
        self.is_set_back &= !is_claim;
        if is_claim && lost {
            let is_lie = !self.lost_power;
            let words = || "writes are called lost though no power was".to_owned();
            self.check("1", if is_lie { Err(words()) } else { Ok(()) });
            self.oracle.lost(epoch);
        }
        for node in 0..self.copies {
            self.nodes[node].is_swapped &= self.store.record.is_recorded_healthy(replica_id(node));
        }
        let has_one = self.store.record.healthy().next().is_some();
        self.check("1", has_one.then_some(()).ok_or_else(|| "nobody is healthy".to_owned()));
        for node in 0..self.copies {
            self.judge_copy(node);
        }
    }

    /// A copy that counts holds everything that was flushed.
    pub(super) fn judge_copy(&mut self, node: usize) {
        let it = &self.nodes[node];
        let is_unknown = it.is_bad || it.is_swapped || self.is_set_back;
        if !self.store.record.is_healthy(replica_id(node)) || is_unknown {
            return;
        }
        let Some((data, _)) = self.peek(node, Image::Replica(replica_id(node))) else { return };
        let result = self.oracle.judge_copy(WINDOWS, &data);
        self.check("4", result.map_err(|words| format!("node {node}: {words}")));
    }

    /// Every copy is healthy, nothing is to be copied, and a target serves.
    pub(super) fn is_whole(&self) -> bool {
        let record = &self.store.record;
        let is_healthy = (0..self.copies).all(|node| record.is_healthy(replica_id(node)));
        let site = self.targets.get(&record.epoch.0);
        let is_served = site.is_some_and(|site| site.machine.is_serving());
        is_healthy && is_served && self.host_is_quiet()
    }

    /// Invariants 3, 9 and 12: copies are equal, holes included.
    pub(super) fn judge_rest(&mut self) {
        let mut first: Option<(Vec<u8>, Vec<bool>)> = None;
        for node in 0..self.copies {
            let found = self.peek(node, Image::Replica(replica_id(node)));
            let result = match (&first, &found) {
                (_, None) => Err(format!("node {node} cannot be read at rest")),
                (Some((data, _)), Some((other, _))) if data != other => {
                    let at = data.iter().zip(other).position(|(a, b)| a != b).unwrap_or(0);
                    Err(format!("node {node} differs in block {} of those", at / block::BLOCK))
                }
                (Some((_, holes)), Some((_, other))) if holes != other => {
                    let at = holes.iter().zip(other).position(|(a, b)| a != b).unwrap_or(0);
                    Err(format!("node {node} has other holes, block {at}"))
                }
                _ => Ok(()),
            };
            self.check("3", result);
            first = first.or(found);
            self.judge_copy(node);
        }
        self.judge_resting_snapshots();
    }

    /// Invariant 7: pools are left clean, and what they say of their space is true.
    pub(super) fn judge_pools(&mut self) {
        // A target would miss what is closed now.
        self.targets.clear();
        for node in 0..self.copies {
            let Some(up) = self.nodes[node].up() else { continue };
            let (walked, used) = (up.pool.walked(), up.pool.stats().used);
            let words = || format!("node {node} counts {used} as used and has {walked}");
            self.check("7", if walked == used { Ok(()) } else { Err(words()) });
            self.ask_pool(node, Asker::Other, Request::Export);
        }
        self.run_until(self.now + 5_000_000);
        for node in 0..self.copies {
            let result = self.fsck(node);
            self.check("7", result.map_err(|words| format!("fsck of node {node}: {words}")));
        }
    }
}

fn describe(record: &Membership) -> String {
    let healthy: Vec<String> = (0..super::world::COPIES_MOST)
        .filter(|node| record.is_recorded_healthy(replica_id(*node)))
        .map(|node| node.to_string())
        .collect();
    let source =
        (0..super::world::COPIES_MOST).find(|node| record.resync_source == Some(replica_id(*node)));
    format!(
        "epoch {} roster {} healthy {} clean {} source {source:?} lost {}",
        record.epoch,
        record.roster,
        healthy.join(","),
        record.clean,
        record.unflushed_lost
    )
}
