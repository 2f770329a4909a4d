//! Metrics: what every volume, replica and pool did and takes.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use crate::{
    metrics::{Family, Flow, Page},
    nvme_port::Export,
    shard::Shard,
    storage::PoolState,
};

const VOLUME_LATENCY: Family = Family::histogram(
    "holdfast_volume_latency_seconds",
    "Time from a host's command to its answer, at the target.",
);
const VOLUME_BYTES: Family =
    Family::counter("holdfast_volume_bytes_total", "Bytes that hosts moved, at the target.");
const REPLICA_LATENCY: Family = Family::histogram(
    "holdfast_replica_latency_seconds",
    "Time from a remote target's command to its answer, at the replica.",
);
const REPLICA_BYTES: Family =
    Family::counter("holdfast_replica_bytes_total", "Bytes that remote targets moved.");
const DISK_LATENCY: Family =
    Family::histogram("holdfast_pool_disk_latency_seconds", "Time of one operation of the disk.");
const SPACE: Family = Family::gauge(
    "holdfast_pool_bytes",
    "The pool's balance sheet: free, used, reserved and quarantined add up to the capacity.",
);
const REBUILD: Family =
    Family::gauge("holdfast_rebuild_percent", "Progress of the copy to a replica.");
const COPIED: Family = Family::counter(
    "holdfast_volume_copied_bytes_total",
    "Bytes that the target copied between replicas: resyncs, rebuilds and repairs.",
);
const HEALTHY: Family =
    Family::gauge("holdfast_volume_healthy_replicas", "Replicas recorded healthy by the target.");
const SESSIONS: Family = Family::gauge("holdfast_connections", "Open connections.");

impl Shard {
    pub(crate) fn metrics(&self) -> String {
        let mut page = Page::default();
        page.flows(
            "volume",
            VOLUME_LATENCY,
            VOLUME_BYTES,
            &self.flows(|export| match export {
                Export::Volume(volume) => Some(volume.to_string()),
                _ => None,
            }),
        );
        page.flows(
            "replica",
            REPLICA_LATENCY,
            REPLICA_BYTES,
            &self.flows(|export| match export {
                Export::Replica(replica) => Some(replica.to_string()),
                _ => None,
            }),
        );
        self.pool_metrics(&mut page);
        self.target_metrics(&mut page);
        page.value(SESSIONS, &[], self.cx.conns.len());
        page.text()
    }

    fn flows(&self, name: impl Fn(Export) -> Option<String>) -> Vec<(String, &Flow)> {
        self.cx.port.flows().filter_map(|(export, flow)| Some((name(export)?, flow))).collect()
    }

    fn pool_metrics(&self, page: &mut Page) {
        for (id, entry) in self.storage.pools.iter() {
            page.histogram(DISK_LATENCY, &[("pool", &id.to_string())], &entry.io);
        }
        for (id, entry) in self.storage.pools.iter() {
            let PoolState::Open(pool) = &entry.state else { continue };
            let stats = pool.stats();
            let sheet = [
                ("capacity", stats.capacity),
                ("used", stats.used),
                ("reserved", stats.reserved),
                ("quarantined", stats.quarantined),
                ("free", stats.free),
                ("committed", stats.committed),
            ];
            for (kind, bytes) in sheet {
                page.value(SPACE, &[("pool", &id.to_string()), ("kind", kind)], bytes.0);
            }
        }
    }

    fn target_metrics(&self, page: &mut Page) {
        for (volume, entry) in self.targets.entries.iter() {
            page.value(COPIED, &[("volume", &volume.to_string())], entry.copied);
        }
        for (volume, entry) in self.targets.entries.iter() {
            let healthy = entry.machine.record().healthy().count();
            page.value(HEALTHY, &[("volume", &volume.to_string())], healthy);
        }
        for (volume, entry) in self.targets.entries.iter() {
            for (replica, child) in entry.machine.seen().children {
                if let Some(percent) = child.copied {
                    let labels =
                        [("volume", &*volume.to_string()), ("replica", &*replica.to_string())];
                    page.value(REBUILD, &labels, percent);
                }
            }
        }
    }
}
