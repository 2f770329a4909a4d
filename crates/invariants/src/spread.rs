//! LC-1, LC-2, M-16: a copy goes where its volume's topology lets it.
//!
//! Judged when a copy is placed, beside the copies that stay: labels may change later, and copies
//! are not moved for that. A pool's own label comes before its node's.

use alloc::{format, string::String};

use model::{PoolId, Replica, ReplicaStage, Volume};

use crate::{Committed, Promise, Records, VolumeChange, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("spread", "a copy is placed where the volume's topology lets it")
        .of_commits(check);

fn check(committed: Committed<'_>, report: &mut Report) {
    let records = committed.records;
    for change in committed.volumes() {
        let Some(volume) = change.volume.after else { continue };
        for replica in change.placed() {
            let Some(pool) = records.pools.get(&replica.pool) else { continue };
            if pool.spec.node != replica.node {
                let words = format!("replica {} is not on its pool's node", replica.id);
                report.broken(change.key(), words);
            }
            for (key, value) in &volume.spec.topology.affinity {
                if label(records, replica.pool, key) != Some(value) {
                    let words = format!("replica {} is placed outside {key}={value}", replica.id);
                    report.broken(change.key(), words);
                }
            }
            shares_no_label(records, change, volume, replica, report);
        }
    }
}

fn shares_no_label(
    records: &Records,
    change: VolumeChange<'_>,
    volume: &Volume,
    placed: &Replica,
    report: &mut Report,
) {
    let counts = |other: &&Replica| {
        other.id != placed.id
            && other.stage != ReplicaStage::Retiring
            && other.gone_since.is_none()
            // A copy on a drained node is on its way out, and its place is the new one's.
            && !records.nodes.get(&other.node).is_some_and(|node| node.spec.draining)
            && !records.is_written_off(other.pool, other.node)
    };
    for key in &volume.spec.topology.spread {
        let Some(value) = label(records, placed.pool, key) else { continue };
        let mut others = volume.layout.replicas.iter().filter(counts);
        if let Some(other) = others.find(|other| label(records, other.pool, key) == Some(value)) {
            let (one, two) = (placed.id, other.id);
            let words = format!("replica {one} is placed beside {two}, both in {key}={value}");
            report.broken(change.key(), words);
        }
    }
}

fn label<'a>(records: &'a Records, pool: PoolId, key: &str) -> Option<&'a String> {
    let pool = records.pools.get(&pool)?;
    let node = || records.nodes.get(&pool.spec.node).and_then(|node| node.meta.labels.get(key));
    pool.meta.labels.get(key).or_else(node)
}

#[cfg(test)]
mod tests;
