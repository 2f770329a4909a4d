//! After the faults: everything that was asked for must come true, and then nothing more may
//! happen.

mod truth;

use std::collections::BTreeSet;

use model::{
    Cause, HostStage, Liveness, Millis, Observed, PoolHealth, Publication, Record, SnapshotStage,
    Subject, Time, Volume, VolumeStage, Wait,
};

use crate::{
    Cluster, Failure, Kind, Party, fakes::host::Attachment, names, run::run_until, user::User,
};

/// How long the world may take. Longer than every waiting time of the rules, since a machine that
/// is gone for ever is replaced only after its own.
const PATIENCE: Millis = Millis::minutes(45);
const FAULTS_END: Millis = Millis::seconds(62);
const LOOK_EVERY: Millis = Millis::seconds(5);
/// Nothing may happen for this long after everything is done.
const QUIET: Millis = Millis::seconds(40);

pub(crate) struct Settled {
    /// Something was lost for ever: a volume may be without a healthy copy.
    pub(crate) lasting: bool,
    /// How long it may take, if not as long as ever needed.
    pub(crate) patience: Option<Millis>,
}

pub(crate) fn settle(
    cluster: &mut Cluster,
    user: &mut User,
    settled: &Settled,
) -> Result<(), Failure> {
    cluster.note("the faults are over");
    cluster.calm();
    cluster.power_all_on();
    // Faults end by themselves after their time; the longest is a minute.
    run_until(cluster, user, cluster.now + FAULTS_END)?;
    cluster.calm();
    cluster.power_all_on();
    let until = cluster.now + settled.patience.unwrap_or(PATIENCE);
    loop {
        come_true(cluster, user, settled, until)?;
        cluster.judge_records();
        let (done, copying) = (decided(cluster), truth::copies_under_way(cluster));
        run_until(cluster, user, cluster.now + QUIET)?;
        let after = decided(cluster);
        if after == done {
            break;
        }
        // A volume that lacks room may still be copied meanwhile: that ends later, or never.
        if !copying || cluster.now >= until {
            let changed = after.symmetric_difference(&done).map(|(key, _)| key.clone());
            let changed: BTreeSet<String> = changed.collect();
            let words = format!("everything was done, and then these changed: {changed:?}");
            return Err(restless(cluster, words));
        }
    }
    let step = leader(cluster)
        .and_then(|brain| plan::sweep(brain.world()).into_iter().find_map(|(_, plan)| plan.step));
    match step {
        Some(step) => Err(restless(cluster, step.to_string())),
        None => Ok(()),
    }
}

/// Until nothing is lacking.
fn come_true(
    cluster: &mut Cluster,
    user: &mut User,
    settled: &Settled,
    until: Time,
) -> Result<(), Failure> {
    loop {
        run_until(cluster, user, cluster.now + LOOK_EVERY)?;
        cluster.refresh_facts(&BTreeSet::new());
        match lacking(cluster, user, settled) {
            None => return Ok(()),
            Some(words) if cluster.now >= until => {
                truth::note_all(cluster);
                return Err(stuck(cluster, words));
            }
            Some(_) => {}
        }
    }
}

/// Every revision of a decision. Elections are none: two lost messages may cost a leader its lease.
fn decided(cluster: &Cluster) -> BTreeSet<(String, model::Revision)> {
    let revision = |record: &Record| match record {
        Record::Volume(volume) => Some(volume.meta.revision),
        Record::Membership(membership) => Some(membership.revision),
        Record::Node(node) => Some(node.meta.revision),
        Record::Pool(pool) => Some(pool.meta.revision),
        Record::Snapshot(snapshot) => Some(snapshot.meta.revision),
        Record::Tombstone(tombstone) => Some(tombstone.revision),
        _ => None,
    };
    let records = cluster.records.by_key.iter();
    records.filter_map(|(key, record)| Some((key.to_string(), revision(record)?))).collect()
}

fn stuck(cluster: &Cluster, words: String) -> Failure {
    let promise = words.split(':').next().unwrap_or("progress").to_owned();
    failure(cluster, Kind::NoProgress, &promise, words)
}

fn restless(cluster: &Cluster, words: String) -> Failure {
    failure(cluster, Kind::NoProgress, "quiet when done", words)
}

pub(crate) fn failure(cluster: &Cluster, kind: Kind, promise: &str, words: String) -> Failure {
    let at = cluster.now.since(crate::START);
    Failure { kind, promise: promise.into(), words, at, event: cluster.events }
}

pub(crate) fn leader(cluster: &Cluster) -> Option<&dyn crate::Brain> {
    let brains = cluster.controllers.iter().filter_map(|seat| seat.process.as_ref());
    brains.map(|controller| controller.brain.as_ref()).find(|brain| brain.is_leader())
}

/// What is still to be done: its kind before the colon, then what it is about.
fn lacking(cluster: &Cluster, user: &User, settled: &Settled) -> Option<String> {
    if user.is_waiting() {
        return Some("requests are answered: some are not".into());
    }
    let Some(brain) = leader(cluster) else {
        return Some("someone leads: nobody does".into());
    };
    let world = brain.world();
    if let Some(why) = world.read_only() {
        return Some(format!("the leader acts: it is read-only, {why}"));
    }
    if let Some(what) = brain.busy_with() {
        return Some(format!("the leader rests: it has {what}"));
    }
    if world.revision < cluster.records.revision {
        return Some("the leader rests: it has not heard of everything".into());
    }
    let plans = plan::sweep(world);
    if let Some(step) = plans.iter().find_map(|(_, plan)| plan.step.as_ref()) {
        return Some(format!("steps are taken: {step}"));
    }
    // The grace of an orphan is in the controller's memory: it ends in a step, or in a reason.
    let mut waits = plans.iter().flat_map(|(_, plan)| &plan.waits);
    if let Some(wait) = waits.find(|wait| matches!(wait, Wait::OrphanGrace { .. })) {
        return Some(format!("orphans are judged: {wait}"));
    }
    for record in cluster.records.by_key.values() {
        let found = match record {
            Record::Volume(volume) => unfinished(cluster, world, volume, settled),
            Record::Snapshot(snapshot) => {
                let taking = snapshot.layout.stage == SnapshotStage::Taking;
                let name = &snapshot.meta.name;
                (taking || snapshot.spec.deleting)
                    .then(|| format!("snapshots end: {name} is neither taken nor deleted"))
            }
            Record::Tombstone(tombstone) => {
                // What lies in a pool that is gone cannot be removed, and nobody waits for it.
                let buried = tombstone.buried;
                let reachable = buried.pool().is_none_or(|pool| is_online(world, pool));
                let alive = world.liveness(tombstone.node) == Liveness::Alive;
                (alive && reachable).then(|| format!("tombstones go: {} is left", tombstone.buried))
            }
            Record::Pool(pool) => (pool.spec.deleting && truth::is_empty(cluster, pool))
                .then(|| format!("deleted pools go: {} is left", pool.meta.name)),
            Record::Node(node) => node.spec.forgotten.then(|| {
                let still = truth::still_on(cluster, node.meta.id).join(", ");
                format!("forgotten nodes go: {} is left with {still}", node.meta.name)
            }),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    truth::amiss(cluster, world)
}

fn is_online(world: &plan::World, pool: model::PoolId) -> bool {
    matches!(world.pool_seen(pool), Observed::Present(seen) if seen.health == PoolHealth::Online)
}

fn unfinished(
    cluster: &Cluster,
    world: &plan::World,
    volume: &Volume,
    settled: &Settled,
) -> Option<String> {
    let name = &volume.meta.name;
    let layout = &volume.layout;
    if volume.spec.deleting {
        return Some(format!("deletions end: {name} is left"));
    }
    let plan = plan::plan(world, Subject::Volume(volume.meta.id));
    let excused = plan.waits.iter().any(|wait| is_excuse(cluster, volume, wait, settled));
    let waits: Vec<String> = plan.waits.iter().map(Wait::to_string).collect();
    let waits = waits.join("; ");
    if let Some(step) = plan.step {
        return Some(format!("volumes rest: {name} has a step, {step}"));
    }
    if excused {
        return None;
    }
    if let Some(Cause::Until(_)) = plan.waits.iter().map(Wait::cause).find(is_timer) {
        return Some(format!("volumes rest: {name} waits, {waits}"));
    }
    let membership = cluster.records.membership(volume.meta.id)?;
    let good = layout.replicas.iter().filter(|replica| membership.is_healthy(replica.id)).count();
    let wanted = usize::from(volume.spec.replicas);
    let extra = |replica: &&model::Replica| !truth::keeps_snapshot(cluster, membership, replica.id);
    let has = layout.replicas.iter().filter(extra).count();
    if good != wanted || has != wanted {
        return Some(format!(
            "volumes heal: {name} has {good} healthy copies of {has}, {wanted} are wanted: {waits}"
        ));
    }
    if layout.stage != VolumeStage::Created {
        return Some(format!("volumes are made: {name} is not: {waits}"));
    }
    if layout.switchover.is_some() || !layout.old_targets.is_empty() {
        return Some(format!("switchovers end: {name} is in one: {waits}"));
    }
    if layout.exposed != volume.spec.size && truth::can_grow(cluster, volume) {
        return Some(format!("volumes grow: {name} does not: {waits}"));
    }
    if let Some(words) = truth::unshared(cluster, volume) {
        return Some(format!("shares are served: {name}, {words}: {waits}"));
    }
    unattached(cluster, volume)
        .map(|words| format!("hosts get their paths: {name}, {words}: {waits}"))
}

fn is_timer(cause: &Cause) -> bool {
    matches!(cause, Cause::Until(_))
}

fn unattached(cluster: &Cluster, volume: &Volume) -> Option<String> {
    let layout = &volume.layout;
    if let Some((host, _)) = layout.hosts.iter().find(|(_, s)| **s == HostStage::Leaving) {
        return Some(format!("{} has not left", names::label(host.0)));
    }
    let wished = volume.spec.publish.as_ref();
    match &layout.publication {
        Publication::Pending { .. } => return Some("an attempt is open".into()),
        Publication::None if wished.is_some() => return Some("nobody took the wish up".into()),
        Publication::None | Publication::Published { .. } | Publication::Failed { .. } => {}
    }
    for host in layout.hosts.keys() {
        let process = cluster.hosts.get(host).and_then(|machine| machine.process.as_ref());
        let live = process.is_some_and(|process| {
            process.attached.get(&volume.meta.id).is_some_and(Attachment::has_live_path)
        });
        if !live && cluster.is_running(Party::Host(*host)) {
            return Some(format!("{} has no live path", names::label(host.0)));
        }
    }
    None
}

/// Waits that may last for ever, through no fault of the rules.
fn is_excuse(cluster: &Cluster, volume: &Volume, wait: &Wait, settled: &Settled) -> bool {
    match wait {
        Wait::NoRoom { .. } => truth::roomy_pool(cluster, volume).is_none(),
        Wait::NoRoomToGrow { .. } => true,
        Wait::NoHealthyCopy { .. } => settled.lasting && !truth::has_healthy_copy(cluster, volume),
        Wait::HostSilent { .. } => settled.lasting,
        _ => false,
    }
}
