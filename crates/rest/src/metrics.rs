//! Numbers for Prometheus.

use std::{collections::BTreeMap, fmt::Write as _};

use model::{Liveness, Subject};
use plan::Plan;

use crate::{Health, Seen};

/// The text that Prometheus reads.
pub(crate) fn text(seen: &Seen<'_>, requests: &BTreeMap<(String, u16), u64>) -> String {
    let mut out = Text(String::new());
    let world = seen.world;
    out.gauge("holdfast_leader", "Whether this controller leads.");
    out.value("holdfast_leader", "", u64::from(seen.lead.is_own));
    out.gauge("holdfast_read_only", "Whether the store is older than what the pools have seen.");
    out.value("holdfast_read_only", "", u64::from(world.read_only().is_some()));
    out.gauge("holdfast_store_revision", "The newest revision of the store that is known.");
    out.value("holdfast_store_revision", "", world.revision.0);
    out.gauge("holdfast_volumes", "Volumes by their health.");
    let mut volumes: BTreeMap<Health, u64> = BTreeMap::new();
    for id in world.volumes.keys() {
        // Health alone needs no plan.
        let status = plan::status(world, Subject::Volume(*id), &Plan::default());
        let health = status.map_or(Health::Unknown, |status| status.health);
        *volumes.entry(health).or_default() += 1;
    }
    for (health, count) in volumes {
        out.value("holdfast_volumes", &format!("health=\"{health}\""), count);
    }
    out.gauge("holdfast_node_alive", "Whether a node is heard.");
    for view in world.nodes.values() {
        let label = label("node", &view.record.meta.name);
        let alive = view.liveness == Liveness::Alive;
        out.value("holdfast_node_alive", &label, u64::from(alive));
    }
    pools(&mut out, seen);
    out.gauge("holdfast_switchovers", "Switchovers under way.");
    let moving = world.volumes.values().filter(|v| v.record.layout.switchover.is_some());
    out.value("holdfast_switchovers", "", count(moving));
    out.gauge("holdfast_rebuilds", "Rebuilds that hold a slot.");
    out.value("holdfast_rebuilds", "", u64::try_from(world.index.rebuilds).unwrap_or(u64::MAX));
    out.counter("holdfast_controller_total", "What this controller did, by kind.");
    for (kind, value) in &seen.counters {
        out.value("holdfast_controller_total", &label("kind", kind), *value);
    }
    out.counter("holdfast_requests_total", "Requests by operation and status.");
    for ((operation, status), value) in requests {
        let labels = format!("{},status=\"{status}\"", label("operation", operation));
        out.value("holdfast_requests_total", &labels, *value);
    }
    out.0
}

fn pools(out: &mut Text, seen: &Seen<'_>) {
    let pools: Vec<_> = seen.world.pools.values().collect();
    out.gauge("holdfast_pool_capacity_bytes", "What a pool holds at most.");
    for view in &pools {
        let bytes = view.seen.as_ref().map_or(0, |seen| seen.capacity.0);
        out.value("holdfast_pool_capacity_bytes", &label("pool", &view.record.meta.name), bytes);
    }
    out.gauge("holdfast_pool_used_bytes", "What a pool holds.");
    for view in &pools {
        let bytes = view.seen.as_ref().map_or(0, |seen| seen.used.0);
        out.value("holdfast_pool_used_bytes", &label("pool", &view.record.meta.name), bytes);
    }
}

fn count(items: impl Iterator) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

fn label(key: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{key}=\"{value}\"")
}

struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    fn counter(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} counter");
    }

    fn value(&mut self, name: &str, labels: &str, value: u64) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}
