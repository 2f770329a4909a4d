//! The end as it really is: machines and disks, beside what the records and the leader say.
//!
//! Rules that are wrong excuse themselves with their own words, so none of theirs are used here.

use std::collections::BTreeMap;

use model::{
    Bytes, HostStage, Key, Liveness, Mark, Membership, NodeId, Pool, PoolId, Record, Replica,
    ReplicaId, ShareStage, Snapshot, SnapshotStage, TargetRef, Volume,
};

use crate::{
    Cluster, Copies, NodeProcess, Party, TargetFacts,
    fakes::disk::{Disk, PoolDisk},
    names,
};

/// More than what hosts write of a volume takes, with some snapshots of it.
const ROOM_TO_COPY: Bytes = Bytes::mib(4);

/// What is not as it should be: its kind before the colon, then what it is about.
pub(super) fn amiss(cluster: &Cluster, world: &plan::World) -> Option<String> {
    misled(cluster, world)
        .or_else(|| copying(cluster))
        .or_else(|| held_up(cluster))
        .or_else(|| left_behind(cluster))
        .or_else(|| still_attached(cluster))
        .or_else(|| undrained(cluster))
}

/// For who reads the trace of a run that got stuck: every membership, target, and what lies on
/// disks.
pub(super) fn note_all(cluster: &mut Cluster) {
    let mut notes = Vec::new();
    for volume in cluster.records.volumes() {
        let membership = cluster.records.membership(volume.meta.id);
        notes.push(format!("{}: {membership:?}", volume.meta.name));
        for Replica { id, node, pool, .. } in &volume.layout.replicas {
            let (node, pool) = (names::label(node.0), names::label(pool.0));
            let found = cluster.copy(*id).map(|copy| (copy.epoch, copy.roster, &copy.members));
            notes.push(format!("  replica {id} on {node} in {pool}: {found:?}"));
        }
        for (node, machine) in &cluster.nodes {
            let engine = machine.engine.as_ref();
            if let Some(target) = engine.and_then(|engine| engine.tell_target(volume.meta.id)) {
                notes.push(format!("  target on {}: {target}", names::label(node.0)));
            }
        }
    }
    for note in notes {
        cluster.note(&note);
    }
}

/// Whom the leader takes for dead or alive.
fn misled(cluster: &Cluster, world: &plan::World) -> Option<String> {
    let nodes = world.nodes.iter().map(|(id, view)| (Party::Node(*id), view.liveness));
    let hosts = world.hosts.iter().map(|(id, view)| (Party::Host(*id), view.liveness));
    let wrong = |(party, liveness): &(Party, Liveness)| {
        (*liveness == Liveness::Alive) != cluster.is_running(*party)
    };
    let (party, liveness) = nodes.chain(hosts).find(wrong)?;
    Some(format!("the leader knows who lives: {party} is {liveness:?} to it"))
}

/// Whether there is room for what it is to become. Snapshots and thin volumes may take it after a
/// resize was accepted; then it waits until somebody makes room.
pub(super) fn can_grow(cluster: &Cluster, volume: &Volume) -> bool {
    volume.layout.replicas.iter().all(|replica| {
        let pool = open_pool(cluster, replica.node, replica.pool);
        let copy = cluster.copy(replica.id);
        pool.zip(copy).is_some_and(|(pool, copy)| {
            let growth = volume.spec.size.saturating_sub(copy.size);
            copy.thin || growth <= pool.free()
        })
    })
}

/// Copies that are being made, whatever else their volumes wait for. One whose pool is full waits
/// for room.
fn copying(cluster: &Cluster) -> Option<String> {
    let has_room = |replica: &Replica| {
        let pool = open_pool(cluster, replica.node, replica.pool);
        let is_there = cluster.copy(replica.id).is_some();
        is_there && pool.is_some_and(|pool| pool.free() >= ROOM_TO_COPY)
    };
    let volume = cluster.records.volumes().find(|volume| {
        let mut rebuilt = volume.layout.replicas.iter().filter(|replica| replica.rebuilding);
        rebuilt.any(has_room) && has_healthy_copy(cluster, volume)
    })?;
    Some(format!("copies end: one of {} is being made", volume.meta.name))
}

/// A target that waits for a copy acknowledges nothing, and gives up after a while: both must be
/// over before anything is called done.
fn held_up(cluster: &Cluster) -> Option<String> {
    let engines = cluster.nodes.values().filter_map(|machine| machine.engine.as_ref());
    let mut serving = engines.flat_map(NodeProcess::targets).filter(|target| target.is_serving);
    let held = serving.find(|target| target.is_held_up)?;
    Some(format!("targets acknowledge: that of {} is held up", names::label(held.volume.0)))
}

/// Copies and targets that nobody wants and nobody is told to remove.
fn left_behind(cluster: &Cluster) -> Option<String> {
    for (node, machine) in &cluster.nodes {
        let Some(engine) = &machine.engine else { continue };
        for target in engine.targets() {
            let id = target.volume;
            let volume = cluster.records.volume(id);
            let wanted = volume.and_then(|volume| volume.layout.target.as_ref());
            let is_wanted = wanted.is_some_and(|t| (t.node, t.epoch) == (*node, target.epoch));
            if !is_wanted && !is_kept(cluster, volume, *node, &target) {
                let (volume, node) = (names::label(id.0), names::label(node.0));
                return Some(format!(
                    "nothing is left behind: a target of {volume} at epoch {} on {node}",
                    target.epoch
                ));
            }
        }
        let pools = machine.disks.readable().filter(|pool| known_pool(cluster, pool.id).is_some());
        let copies = pools.flat_map(|pool| pool.replicas.iter().map(move |copy| (pool, copy)));
        for (pool, (id, copy)) in copies {
            let volume = cluster.records.volume(copy.volume);
            let known = is_remembered(cluster, pool.mark) && is_remembered(cluster, copy.birth);
            if known && volume.is_none_or(|volume| volume.replica(*id).is_none()) {
                let (volume, node) = (names::label(copy.volume.0), names::label(node.0));
                return Some(format!("nothing is left behind: {id} of {volume} on {node}"));
            }
        }
    }
    None
}

/// An old target that serves stays while nobody could take its place: here because no disk holds a
/// copy that counts any more.
fn is_kept(cluster: &Cluster, volume: Option<&Volume>, node: NodeId, target: &TargetFacts) -> bool {
    let Some(volume) = volume else { return false };
    let is_old = |old: &TargetRef| (old.node, old.epoch) == (node, target.epoch);
    let membership = cluster.records.membership(volume.meta.id);
    let mut children = membership.into_iter().flat_map(|membership| &membership.children);
    let has_copy = children.any(|(id, is_healthy)| *is_healthy && cluster.copy(*id).is_some());
    volume.layout.old_targets.iter().any(is_old) && !target.hosts.is_empty() && !has_copy
}

/// The store still knows who led at that time: what came from an older one proves nothing by its
/// absence, and stays.
fn is_remembered(cluster: &Cluster, mark: Option<Mark>) -> bool {
    let mut terms = cluster.records.by_key.values().filter_map(|record| match record {
        Record::Term(term) => Some(term.leader),
        _ => None,
    });
    mark.is_some_and(|mark| terms.any(|leader| leader == mark.term))
}

/// Volumes on drained nodes that could be elsewhere.
fn undrained(cluster: &Cluster) -> Option<String> {
    let draining = |node: NodeId| {
        matches!(cluster.records.by_key.get(&Key::Node(node)), Some(Record::Node(node))
            if node.spec.draining)
    };
    let stays = |volume: &&Volume| {
        // Without a copy that can be read nothing can move, and a snapshot is not brought elsewhere
        // from a copy that does not count.
        let membership = cluster.records.membership(volume.meta.id);
        let moves = |replica: &Replica| {
            let kept = |counted| keeps_snapshot(cluster, counted, replica.id);
            draining(replica.node) && !membership.is_some_and(kept)
        };
        let copy = has_healthy_copy(cluster, volume) && volume.layout.replicas.iter().any(moves);
        copy && roomy_pool(cluster, volume).is_some()
    };
    let volume = cluster.records.volumes().find(stays)?;
    Some(format!("drains end: {} is still on a drained node", volume.meta.name))
}

/// Hosts that kept what was taken from them.
fn still_attached(cluster: &Cluster) -> Option<String> {
    for (host, machine) in &cluster.hosts {
        let Some(process) = &machine.process else { continue };
        let live = process.attached.iter().filter(|(_, attached)| attached.has_live_path());
        for (id, _) in live {
            let volume = cluster.records.volume(*id);
            let stage = volume.and_then(|volume| volume.layout.hosts.get(host));
            if stage != Some(&HostStage::Admitted) {
                let (host, volume) = (names::label(host.0), names::label(id.0));
                return Some(format!("hosts let go: {host} has a path to {volume}"));
            }
        }
    }
    None
}

fn known_pool(cluster: &Cluster, id: PoolId) -> Option<&Pool> {
    match cluster.records.by_key.get(&Key::Pool(id)) {
        Some(Record::Pool(pool)) if !pool.spec.forgotten && !pool.spec.deleting => Some(pool),
        _ => None,
    }
}

/// No layout places anything in it.
pub(super) fn is_empty(cluster: &Cluster, pool: &Pool) -> bool {
    let mut replicas = cluster.records.volumes().flat_map(|volume| &volume.layout.replicas);
    replicas.all(|replica| replica.pool != pool.meta.id)
}

/// The volumes with a copy or a target there.
pub(super) fn still_on(cluster: &Cluster, node: NodeId) -> Vec<String> {
    let there = cluster.records.volumes().filter(|volume| {
        let layout = &volume.layout;
        layout.replicas.iter().any(|replica| replica.node == node)
            || layout.target.as_ref().is_some_and(|target| target.node == node)
    });
    there.map(|volume| volume.meta.name.clone()).collect()
}

/// A copy that does not count itself holds a snapshot that none does which counts: after a
/// promotion nothing else may be left of it.
pub(super) fn keeps_snapshot(cluster: &Cluster, counted: &Membership, replica: ReplicaId) -> bool {
    let is_last = |snapshot: &Snapshot| {
        let copies = &snapshot.layout.copies;
        snapshot.layout.stage == SnapshotStage::Ready
            && copies.contains(&replica)
            && !copies.iter().any(|copy| counted.is_healthy(*copy))
    };
    cluster.records.by_key.values().any(|record| match record {
        Record::Snapshot(snapshot) => is_last(snapshot),
        _ => false,
    })
}

/// A share that somebody consumes is served, if any host can; one that nobody consumes is not.
pub(super) fn unshared(cluster: &Cluster, volume: &Volume) -> Option<String> {
    let is_wished = volume.spec.share.as_ref().is_some_and(|share| !share.consumers.is_empty());
    // Being served at all comes before drains and cordons.
    let can_be = cluster.hosts.values().any(|machine| machine.process.is_some());
    match &volume.layout.share {
        None if is_wished && can_be => Some("it has no server".into()),
        Some(share) if is_wished && can_be && share.stage != ShareStage::Serving => {
            Some(format!("it is {:?}", share.stage))
        }
        Some(_) if !is_wished => Some("it is still served".into()),
        _ => None,
    }
}

/// A copy that counts as healthy lies on a disk that can be read, in a machine that runs.
pub(super) fn has_healthy_copy(cluster: &Cluster, volume: &Volume) -> bool {
    let Some(membership) = cluster.records.membership(volume.meta.id) else { return false };
    let healthy = volume.layout.replicas.iter().filter(|r| membership.is_healthy(r.id));
    healthy.into_iter().any(|replica| {
        cluster.copy(replica.id).is_some()
            && open_pool(cluster, replica.node, replica.pool).is_some()
    })
}

/// A pool that could take another copy of the volume without a doubt: nothing of the volume is near
/// it, nobody restricts where it may be, and twice the space that it needs is promised to nobody.
pub(super) fn roomy_pool(cluster: &Cluster, volume: &Volume) -> Option<PoolId> {
    let spec = &volume.spec;
    let restricted = !spec.topology.spread.is_empty()
        || !spec.topology.affinity.is_empty()
        || spec.affinity_group.is_some()
        || spec.origin.is_some();
    if restricted {
        return None;
    }
    let promised = promised(cluster);
    let needed = Bytes(spec.size.0.saturating_mul(2));
    cluster.records.by_key.values().find_map(|record| {
        let Record::Pool(pool) = record else { return None };
        let (id, node) = (pool.meta.id, pool.spec.node);
        let beside = volume.layout.replicas.iter().any(|replica| replica.node == node);
        let found =
            open_pool(cluster, node, id).filter(|_| !beside && takes_copies(cluster, node))?;
        let taken = promised.get(&id).copied().unwrap_or(Bytes::ZERO).max(found.used);
        let room = found.capacity.saturating_sub(taken);
        (known_pool(cluster, id).is_some() && room >= needed).then_some(id)
    })
}

/// A volume is being copied that has something to copy from.
pub(super) fn copies_under_way(cluster: &Cluster) -> bool {
    cluster.records.by_key.values().any(|record| match record {
        Record::Volume(volume) => {
            let copying = volume.layout.replicas.iter().any(|replica| replica.rebuilding);
            copying && has_healthy_copy(cluster, volume)
        }
        _ => false,
    })
}

fn takes_copies(cluster: &Cluster, node: NodeId) -> bool {
    matches!(cluster.records.by_key.get(&Key::Node(node)), Some(Record::Node(node))
        if !(node.spec.cordoned || node.spec.draining || node.spec.forgotten))
}

fn open_pool(cluster: &Cluster, node: NodeId, pool: PoolId) -> Option<&PoolDisk> {
    let machine = cluster.nodes.get(&node).filter(|machine| machine.engine.is_some())?;
    machine.disks.disk_of(pool).and_then(Disk::readable)
}

/// Everything that layouts promise, thin volumes counted whole.
fn promised(cluster: &Cluster) -> BTreeMap<PoolId, Bytes> {
    let mut sums: BTreeMap<PoolId, Bytes> = BTreeMap::new();
    for volume in cluster.records.volumes() {
        for replica in &volume.layout.replicas {
            let sum = sums.entry(replica.pool).or_insert(Bytes::ZERO);
            *sum = sum.saturating_add(volume.layout.size);
        }
    }
    sums
}
