//! Metrics: what every volume, replica and pool did and takes.

use model::ReplicaId;

use super::{Shard, pools::State};
use crate::metrics::{Family, Flow, Page};

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
    pub(super) fn metrics(&self) -> String {
        let mut page = Page::default();
        let volumes: Vec<(String, &Flow)> = self
            .targets
            .homes
            .iter()
            .map(|(volume, home)| (volume.to_string(), &home.flow))
            .collect();
        page.flows("volume", VOLUME_LATENCY, VOLUME_BYTES, &volumes);
        let replicas: Vec<(String, &Flow)> = self
            .replicas
            .homes
            .iter()
            .map(|(replica, home)| (replica.to_string(), &home.flow))
            .collect();
        page.flows("replica", REPLICA_LATENCY, REPLICA_BYTES, &replicas);
        for (id, home) in &self.pools.homes {
            page.histogram(DISK_LATENCY, &[("pool", &id.to_string())], &home.io);
        }
        for (id, home) in &self.pools.homes {
            let State::Open(pool) = &home.state else { continue };
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
        for (volume, home) in &self.targets.homes {
            page.value(COPIED, &[("volume", &volume.to_string())], home.copied);
        }
        for (volume, home) in &self.targets.homes {
            let healthy = home.machine.record().healthy().count();
            page.value(HEALTHY, &[("volume", &volume.to_string())], healthy);
        }
        for (volume, home) in &self.targets.homes {
            for (replica, child) in home.machine.seen().children {
                if let Some(percent) = child.copied {
                    let replica: ReplicaId = replica;
                    let labels =
                        [("volume", &*volume.to_string()), ("replica", &*replica.to_string())];
                    page.value(REBUILD, &labels, percent);
                }
            }
        }
        page.value(SESSIONS, &[], self.net.len());
        page.text()
    }
}
