//! What a change would do, without doing it.

use std::hash::{Hash as _, Hasher};

use model::{Bytes, NodeId, Revision, Subject, Txn, VolumeId, Write};
use plan::{Request, World};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Problem,
    limits::PREVIEW_STEPS_MAX,
    read::{node_name, readable, volume_name},
};

/// The plan that a change would start, as far as it can be foreseen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The revision of the store that it was made at.
    pub revision: Revision,
    /// Give it as `if-plan`: the change is refused if its plan would be another one by then.
    pub plan: String,
    /// What is decided at once, in order.
    pub steps: Vec<StepShown>,
    /// What is waited for after that.
    pub waits: Vec<String>,
    /// Volumes that have fewer copies afterwards, or are copied or moved, or cut off from a host.
    pub impact: Vec<Impact>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct StepShown {
    pub about: String,
    pub action: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Impact {
    pub volume: String,
    pub copies_before: usize,
    pub copies_after: usize,
    /// What must be copied until it is as before; the volume is less safe for that long.
    pub copied: Bytes,
    pub words: String,
}

pub(crate) fn preview(
    world: &World,
    request: &Request,
    if_spec: Option<u64>,
) -> Result<Preview, Problem> {
    let mut ahead = world.clone();
    let (txns, brought, left_out) = match request {
        Request::Recover { era, accept_data_loss } => {
            let recovery = plan::recover(world, *era, accept_data_loss)?;
            (recovery.txns, recovery.steps, recovery.left_out)
        }
        request => (vec![plan::admit(world, request, if_spec)?], Vec::new(), Vec::new()),
    };
    for txn in &txns {
        commit(&mut ahead, txn);
    }
    // What a recovery writes is no rule's step; the rules go on from there.
    let mut steps: Vec<StepShown> = brought.iter().map(|step| shown(&ahead, step)).collect();
    let mut waits: Vec<String> = left_out.iter().map(|words| readable(&ahead, words)).collect();
    let (later, then) = look_ahead(&mut ahead, request.subject());
    steps.extend(later);
    waits.extend(then);
    let impact = impact(world, request);
    let mut preview =
        Preview { revision: world.revision, plan: String::new(), steps, waits, impact };
    preview.plan = preview.fingerprint();
    Ok(preview)
}

fn shown(world: &World, step: &plan::Brought) -> StepShown {
    StepShown {
        about: readable(world, &step.about.to_string()),
        action: readable(world, &step.action),
        why: step.why.to_owned(),
    }
}

impl Preview {
    /// Two plans that would do the same have the same one.
    fn fingerprint(&self) -> String {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        (&self.steps, &self.waits, &self.impact).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// FNV-1a: the standard hasher may differ from build to build, and a plan is shown by one
/// controller and compared by another.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn commit(world: &mut World, txn: &Txn) {
    world.revision = world.revision.next();
    let revision = world.revision;
    for write in &txn.writes {
        match write {
            Write::Put { key, value: record, .. } => {
                let mut record = record.clone();
                record.set_revision(revision);
                world.put(key, record, revision);
            }
            Write::Delete { key } => {
                world.remove(key);
            }
        }
    }
}

/// Plans and commits in a world of its own, until everything waits for machines.
fn look_ahead(world: &mut World, about: Subject) -> (Vec<StepShown>, Vec<String>) {
    let mut subjects: Vec<Subject> = vec![about];
    if let Subject::Node(id) = about {
        subjects.extend(world.index.volume_ids_on(id).map(Subject::Volume));
    }
    if let Subject::Pool(id) = about
        && let Some(node) = world.pools.get(&id).map(|view| view.record.spec.node)
    {
        subjects.extend(world.index.volume_ids_on(node).map(Subject::Volume));
    }
    let (mut steps, mut waits) = (Vec::new(), Vec::new());
    for subject in subjects {
        loop {
            let plan = plan::plan(world, subject);
            let txn = plan.step.as_ref().and_then(|step| plan::apply(world, step));
            let (Some(step), Some(txn)) = (plan.step, txn) else {
                waits.extend(plan.waits.iter().map(|wait| readable(world, &wait.to_string())));
                break;
            };
            if steps.len() >= PREVIEW_STEPS_MAX {
                return (steps, waits);
            }
            steps.push(StepShown {
                about: readable(world, &subject.to_string()),
                action: readable(world, &step.action.to_string()),
                why: readable(world, &step.why.to_string()),
            });
            commit(world, &txn);
        }
    }
    waits.sort();
    waits.dedup();
    (steps, waits)
}

fn impact(world: &World, request: &Request) -> Vec<Impact> {
    match request {
        Request::DeleteVolume { volume, .. } => {
            let copies_before = world.redundancy(*volume);
            vec![Impact {
                volume: volume_name(world, *volume),
                copies_before,
                copies_after: 0,
                copied: Bytes::ZERO,
                words: destroyed(world, *volume),
            }]
        }
        Request::ScaleVolume { volume, replicas, .. } => {
            let before = world.redundancy(*volume);
            let after = before.min(usize::from(*replicas));
            let shown = Impact {
                volume: volume_name(world, *volume),
                copies_before: before,
                copies_after: after,
                copied: Bytes::ZERO,
                words: "fewer copies are kept from then on".into(),
            };
            if after < before { vec![shown] } else { Vec::new() }
        }
        Request::ForgetNode { node } => {
            let words = format!("the copy on node {} is given up", node_name(world, *node));
            losses(world, &words, |replica| replica.node == *node)
        }
        Request::ForgetPool { pool } => {
            losses(world, "the copy in this pool is given up", |replica| replica.pool == *pool)
        }
        Request::DrainNode { node, draining: true } => moves(world, *node),
        Request::UnpublishVolume { volume, host, force: true, .. } => {
            let host = readable(world, &host.to_string());
            let words = format!("host {host} is cut off, whatever it has under way");
            vec![unchanged(world, *volume, Bytes::ZERO, words)]
        }
        Request::DrillVolume { volume, drill: plan::Drill::Strike { .. } } => {
            let words = "its target is ended on purpose: a pause until another one serves";
            vec![unchanged(world, *volume, Bytes::ZERO, words.to_owned())]
        }
        Request::PromoteVolume { volume, .. } => {
            let words = "writes that only the lost copies had are gone for good".to_owned();
            vec![unchanged(world, *volume, Bytes::ZERO, words)]
        }
        _ => Vec::new(),
    }
}

/// What is lost with a volume.
fn destroyed(world: &World, id: VolumeId) -> String {
    let snapshots = world.index.snapshots_of.get(&id).map_or(0, std::collections::BTreeSet::len);
    let with = match snapshots {
        0 => String::new(),
        count => format!(", and that of its snapshots ({count})"),
    };
    let users = world.volume(id).map(|view| plan::volume_users(&view.record)).unwrap_or_default();
    let lost = users.iter().map(|host| {
        let host = readable(world, &host.to_string());
        format!("; host {host} loses it under whatever it has under way")
    });
    format!("its data is destroyed{with}{}", lost.collect::<String>())
}

/// A volume that keeps its copies.
fn unchanged(world: &World, id: VolumeId, copied: Bytes, words: String) -> Impact {
    let healthy = world.redundancy(id);
    let volume = volume_name(world, id);
    Impact { volume, copies_before: healthy, copies_after: healthy, copied, words }
}

/// Volumes with a copy or a target on a node that is drained. A copy leaves when another one is
/// whole, so none is missing meanwhile.
fn moves(world: &World, node: NodeId) -> Vec<Impact> {
    let volumes = world.index.volume_ids_on(node).filter_map(|id| world.volume(id));
    let shown = volumes.filter_map(|view| {
        let layout = &view.record.layout;
        let has_copy = layout.replicas.iter().any(|replica| replica.node == node);
        let has_target = layout.target.as_ref().is_some_and(|target| target.node == node);
        let words = match (has_copy, has_target) {
            (true, true) => "its copy here is made anew elsewhere; its target moves, with a pause",
            (true, false) => "its copy here is made anew elsewhere before this one goes",
            (false, true) => "its target moves to another node, with a pause",
            (false, false) => return None,
        };
        let copied = if has_copy { layout.size } else { Bytes::ZERO };
        Some(unchanged(world, view.record.meta.id, copied, words.to_owned()))
    });
    shown.collect()
}

/// Volumes with a healthy copy among those named.
fn losses(world: &World, words: &str, is_named: impl Fn(&model::Replica) -> bool) -> Vec<Impact> {
    let with = world.volumes.values().filter_map(|view| {
        let membership = view.membership.as_ref()?;
        let replicas = view.record.layout.replicas.iter();
        let named = replicas.filter(|r| is_named(r) && membership.is_healthy(r.id)).count();
        (named > 0).then_some((view.record.meta.id, named))
    });
    let shown = |(id, named): (VolumeId, usize)| {
        let copies_before = world.redundancy(id);
        let size = world.volume(id).map_or(Bytes::ZERO, |view| view.record.layout.size);
        Impact {
            volume: volume_name(world, id),
            copies_before,
            copies_after: copies_before.saturating_sub(named),
            copied: size,
            words: words.to_owned(),
        }
    };
    with.map(shown).collect()
}
