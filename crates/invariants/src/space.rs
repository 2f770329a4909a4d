//! LC-2, M-08: no byte of a pool is promised twice to thick volumes, nor too often to thin ones.
//!
//! Summed over all layouts and held against the capacity that the pool really has. What a pool that
//! is closed, faulted or written off could hold is not judged.

use alloc::{collections::BTreeMap, format};

use model::{Bytes, Key, NodeId, PoolId};

use crate::{Promise, Records, Seen, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("space", "no pool is promised more than it can hold").of_machines(check);

#[derive(Default)]
struct Promised {
    thick: Bytes,
    thin: Bytes,
}

fn check(records: &Records, seen: &Seen<'_>, report: &mut Report) {
    let mut promised: BTreeMap<(NodeId, PoolId), Promised> = BTreeMap::new();
    for volume in records.volumes.values() {
        for replica in &volume.layout.replicas {
            let sums = promised.entry((replica.node, replica.pool)).or_default();
            let sum = if volume.spec.thin { &mut sums.thin } else { &mut sums.thick };
            *sum = sum.saturating_add(volume.layout.size);
        }
    }
    for ((node, pool), Promised { thick, thin }) in promised {
        let Some(found) = seen.pool(node, pool) else { continue };
        if records.is_written_off(pool, node) {
            continue;
        }
        let capacity = found.capacity;
        if thick > capacity {
            let words = format!("{thick} are reserved in {capacity}");
            report.broken(Key::Pool(pool), words);
        }
        // Without thin volumes there is nothing to overcommit.
        if thin > Bytes::ZERO && thick.saturating_add(thin) > seen.promised_most(capacity) {
            let words = format!("{thick} reserved and {thin} thin are promised of {capacity}");
            report.broken(Key::Pool(pool), words);
        }
    }
}

#[cfg(test)]
mod tests;
