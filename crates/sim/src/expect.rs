//! Judging what a script expects, by the true records, disks and machines.

use std::{collections::BTreeSet, fmt::Write};

use model::{
    Event, Key, Publication, Record, ShareStage, SnapshotStage, Subject, Volume, VolumeId,
};

use crate::{
    Cluster, Expect, Failure, Kind, SnapshotState, VolumeState,
    fakes::host::Attachment,
    names,
    settle::{failure, leader},
    user::User,
};

pub(crate) fn expect(cluster: &Cluster, user: &User, expect: &Expect) -> Result<(), Failure> {
    if holds(cluster, user, expect) {
        return Ok(());
    }
    let promise = format!("expect {expect}");
    Err(failure(cluster, Kind::NoProgress, &promise, state(cluster, user)))
}

/// What is so instead, as far as it fits on a screen.
fn state(cluster: &Cluster, user: &User) -> String {
    let mut words = String::from("it is not so");
    if let Some(why) = leader(cluster).and_then(|brain| brain.world().read_only()) {
        let _ = write!(words, "\n  read-only: {why}");
    }
    for volume in cluster.records.volumes() {
        let (good, wanted) = copies(cluster, &names::label(volume.meta.id.0)).unwrap_or_default();
        let layout = &volume.layout;
        let target = layout.target.as_ref().map(|target| names::label(target.node.0));
        let stage = layout.switchover.as_ref().map(|switchover| &switchover.stage);
        let _ = write!(
            words,
            "\n  {}: {good} of {wanted} copies, target {target:?}, epoch {}, {:?}, {stage:?}",
            volume.meta.name, layout.epoch, layout.publication
        );
    }
    for said in user.refused.iter().chain(&user.said) {
        let _ = write!(words, "\n  {said}");
    }
    words
}

fn holds(cluster: &Cluster, user: &User, expect: &Expect) -> bool {
    match expect {
        Expect::No(rest) => !holds(cluster, user, rest),
        Expect::Snapshot { snapshot, state } => has_snapshot(cluster, snapshot, *state),
        Expect::Pool { pool } => has(cluster, &Key::Pool(names::pool(pool))),
        Expect::Node { node } => has(cluster, &Key::Node(names::node(node))),
        Expect::Tombstones { node } => {
            let node = node.as_deref().map(names::node);
            cluster.records.by_key.keys().any(|key| match key {
                Key::Tombstone(on, _) => node.is_none_or(|node| node == *on),
                _ => false,
            })
        }
        Expect::Rebuilds { at_most } => {
            let replicas = cluster.records.volumes().flat_map(|volume| &volume.layout.replicas);
            replicas.filter(|replica| replica.rebuilding).count() <= *at_most
        }
        Expect::Balance { within } => imbalance(cluster) <= *within,
        Expect::ReadOnly => leader(cluster).is_some_and(|b| b.world().read_only().is_some()),
        Expect::Event { words } => events(cluster).any(|event| tells(event, words)),
        Expect::Events { at_most, words } => {
            events(cluster).filter(|event| tells(event, words)).count() <= *at_most
        }
        Expect::Early { name, at_most, words } => {
            let mut first = events(cluster).filter(|event| tells(event, words)).take(*at_most);
            first.any(|event| event.name == *name)
        }
        Expect::Refused { words } => user.refused.iter().any(|said| said.contains(words.as_str())),
        Expect::Said { words } => user.said.iter().any(|said| said.contains(words.as_str())),
        _ => holds_of_volume(cluster, expect),
    }
}

fn holds_of_volume(cluster: &Cluster, expect: &Expect) -> bool {
    match expect {
        Expect::Volume { volume, state } => has_volume(cluster, volume, *state),
        Expect::Copies { volume, count } => {
            copies(cluster, volume).is_some_and(|(good, _)| good == *count)
        }
        Expect::Copy { volume, pool } => lies_on(cluster, names::volume(volume), pool),
        Expect::Spread { volume, label, count } => {
            spread(cluster, volume, label).is_some_and(|values| values == *count)
        }
        Expect::Path { host, volume } => has_path(cluster, host, volume),
        Expect::Target { volume, node } => {
            let target = record(cluster, volume).and_then(|record| record.layout.target.as_ref());
            target.is_some_and(|target| {
                node.as_deref().is_none_or(|node| target.node == names::node(node))
            })
        }
        Expect::Switchover { volume, stage } => record(cluster, volume)
            .and_then(|record| record.layout.switchover.as_ref())
            .is_some_and(|switchover| {
                let found = format!("{:?}", switchover.stage);
                stage.as_ref().is_none_or(|stage| found.starts_with(stage.as_str()))
            }),
        Expect::Epoch { volume, at_most } => {
            record(cluster, volume).is_some_and(|record| record.layout.epoch.0 <= *at_most)
        }
        Expect::Share { volume, host } => is_shared_by(cluster, volume, host),
        Expect::Writes { volume, within } => {
            let last = cluster.oracle.last_ack(names::volume(volume));
            last.is_some_and(|at| cluster.now.since(at) <= *within)
        }
        Expect::Wait { volume, wait } => leader(cluster).is_some_and(|brain| {
            let plan = plan::plan(brain.world(), Subject::Volume(names::volume(volume)));
            plan.waits.iter().any(|found| format!("{found:?}").starts_with(wait.as_str()))
        }),
        _ => false,
    }
}

fn has(cluster: &Cluster, key: &Key) -> bool {
    cluster.records.by_key.contains_key(key)
}

fn record<'a>(cluster: &'a Cluster, volume: &str) -> Option<&'a Volume> {
    cluster.records.volume(names::volume(volume))
}

fn has_volume(cluster: &Cluster, volume: &str, state: VolumeState) -> bool {
    let Some(record) = record(cluster, volume) else { return false };
    let healthy = copies(cluster, volume).is_some_and(|(good, wanted)| good >= wanted);
    match state {
        VolumeState::Exists => true,
        VolumeState::Healthy => healthy,
        VolumeState::Degraded => !healthy,
        VolumeState::Published => {
            matches!(record.layout.publication, Publication::Published { .. })
        }
        VolumeState::Failed => matches!(record.layout.publication, Publication::Failed { .. }),
    }
}

fn has_snapshot(cluster: &Cluster, snapshot: &str, state: SnapshotState) -> bool {
    let key = Key::Snapshot(names::snapshot(snapshot));
    let Some(Record::Snapshot(record)) = cluster.records.by_key.get(&key) else { return false };
    match state {
        SnapshotState::Exists => true,
        SnapshotState::Ready => record.layout.stage == SnapshotStage::Ready,
        SnapshotState::Failed => {
            !matches!(record.layout.stage, SnapshotStage::Ready | SnapshotStage::Taking)
        }
    }
}

/// Healthy copies, and how many are wanted.
fn copies(cluster: &Cluster, volume: &str) -> Option<(usize, usize)> {
    let record = record(cluster, volume)?;
    let membership = cluster.records.membership(names::volume(volume))?;
    let good = record.layout.replicas.iter().filter(|r| membership.is_healthy(r.id)).count();
    Some((good, usize::from(record.spec.replicas)))
}

fn lies_on(cluster: &Cluster, volume: VolumeId, pool: &str) -> bool {
    let disks = cluster.nodes.values().filter_map(|m| m.disks.disk_of(names::pool(pool)));
    let mut pools = disks.filter_map(|disk| disk.pool.as_ref());
    pools.any(|pool| pool.replicas.values().any(|replica| replica.volume == volume))
}

fn spread(cluster: &Cluster, volume: &str, label: &str) -> Option<usize> {
    let replicas = &record(cluster, volume)?.layout.replicas;
    let labels: BTreeSet<_> = replicas
        .iter()
        .filter_map(|replica| match cluster.records.by_key.get(&Key::Node(replica.node)) {
            Some(Record::Node(node)) => node.meta.labels.get(label),
            _ => None,
        })
        .collect();
    Some(labels.len())
}

fn has_path(cluster: &Cluster, host: &str, volume: &str) -> bool {
    let machine = cluster.hosts.get(&names::host(host));
    let process = machine.and_then(|machine| machine.process.as_ref());
    process.is_some_and(|process| {
        let attached = process.attached.get(&names::volume(volume));
        attached.is_some_and(Attachment::has_live_path)
    })
}

fn is_shared_by(cluster: &Cluster, volume: &str, host: &str) -> bool {
    let share = record(cluster, volume).and_then(|record| record.layout.share.as_ref());
    let (id, host) = (names::volume(volume), names::host(host));
    let serves = share.is_some_and(|s| s.server == host && s.stage == ShareStage::Serving);
    let mounted = cluster.hosts.iter().filter(|(_, machine)| {
        let attached = machine.process.as_ref().and_then(|process| process.attached.get(&id));
        attached.is_some_and(Attachment::is_mounted)
    });
    serves && mounted.map(|(id, _)| *id).eq([host])
}

/// Percent of use of the fullest pool over the emptiest one.
fn imbalance(cluster: &Cluster) -> u64 {
    let disks = cluster.nodes.values().flat_map(|machine| machine.disks.by_path.values());
    let used = disks.filter_map(|disk| {
        let promised = disk.pool.as_ref()?.replicas.values().map(|replica| replica.size.0);
        promised.sum::<u64>().saturating_mul(100).checked_div(disk.capacity.0)
    });
    let used: BTreeSet<u64> = used.collect();
    let fullest = used.last().copied().unwrap_or(0);
    fullest - used.first().copied().unwrap_or(0)
}

/// The journal, oldest first.
fn events(cluster: &Cluster) -> impl Iterator<Item = &Event> {
    cluster.records.by_key.values().filter_map(|record| match record {
        Record::Event(event) => Some(event.as_ref()),
        _ => None,
    })
}

fn tells(event: &Event, words: &str) -> bool {
    format!("{} {}", event.name, event.words).contains(words)
}
