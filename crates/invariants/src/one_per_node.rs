//! RC-2, HA-8: two copies on one machine die together and count as one.
//!
//! A copy that is on its way out, or lies on hardware that was written off, no longer counts.

use alloc::format;

use model::{Key, Replica, ReplicaStage};

use crate::{Promise, Records, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("one_per_node", "no node keeps two copies of a volume").of_records(check);

fn check(records: &Records, key: &Key, report: &mut Report) {
    let Key::Volume(id) = key else { return };
    let Some(volume) = records.volumes.get(id) else { return };
    let stays = |replica: &&Replica| {
        replica.stage != ReplicaStage::Retiring
            && !records.is_written_off(replica.pool, replica.node)
    };
    let replicas = &volume.layout.replicas;
    for (index, replica) in replicas.iter().enumerate().filter(|(_, replica)| stays(replica)) {
        let mut before = replicas[..index].iter().filter(stays);
        let shares = |other: &&Replica| other.node == replica.node || other.pool == replica.pool;
        if let Some(other) = before.find(shares) {
            let (one, two, node) = (other.id, replica.id, replica.node);
            report.broken(key.clone(), format!("replicas {one} and {two} are both on node {node}"));
        }
    }
}

#[cfg(test)]
mod tests;
