//! From what users send to what the planner admits.

use std::time::Duration;

use model::{Labels, Subject, Time, VolumeSpec};
use plan::{Request, World, volume_differences};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    DrillReport, DrillStart, PoolPut, Problem, Promote, PublicationPut, Recover, SharePut,
    SnapshotPut, VolumePut, limits,
    query::Query,
    read::{Kind, host_id, node_id, node_name, pool_id, snapshot_id, volume_id},
    routes::Operation,
    wait::{Condition, subject},
};

/// A change as it was asked for, read but not yet looked up.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub operation: Operation,
    pub name: String,
    /// The second name in the path.
    pub host: String,
    pub body: Body,
    pub must: Must,
    pub force: bool,
    pub with_snapshots: bool,
    /// Only what it would do is asked for.
    pub is_dry: bool,
    /// It is done only if its plan is still this one.
    pub if_plan: Option<String>,
    /// What is waited for before the answer, and until when.
    pub wait: Option<(Condition, Instant)>,
}

/// What must hold for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Must {
    Anything,
    /// The spec is at the revision that the user saw.
    BeAt(u64),
    /// What it names is made if it is not there, and never changed.
    BeNew,
}

/// The same, as the headers say it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preconditions<'a> {
    pub if_match: Option<&'a str>,
    pub if_none_match: Option<&'a str>,
}

impl Preconditions<'_> {
    fn read(self, operation: Operation) -> Result<Must, Problem> {
        let refused = |detail| Err(Problem::field("If-None-Match", detail));
        match (self.if_match, self.if_none_match.map(str::trim)) {
            (None, None) => Ok(Must::Anything),
            (Some(text), None) => {
                let number = text.trim().trim_start_matches("W/").trim_matches('"').parse();
                let refused = |_| Problem::field("If-Match", "it must be a spec's revision");
                number.map(Must::BeAt).map_err(refused)
            }
            (Some(_), Some(_)) => refused("what is new has no revision: leave If-Match out"),
            (None, Some("*")) if operation.is_making() => Ok(Must::BeNew),
            (None, Some("*")) => refused("only what is made with PUT can be new"),
            (None, Some(_)) => refused("it must be *"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    None,
    Volume(Box<VolumePut>),
    Publication(PublicationPut),
    Share(SharePut),
    Promote(Promote),
    Pool(PoolPut),
    Labels(Labels),
    Snapshot(SnapshotPut),
    Drill(DrillStart),
    DrillReport(DrillReport),
    Recover(Recover),
}

impl Body {
    pub(crate) fn read(operation: Operation, bytes: &[u8]) -> Result<Self, Problem> {
        Ok(match operation {
            Operation::PutVolume => Self::Volume(parse(bytes)?),
            Operation::Publish => Self::Publication(parse(bytes)?),
            Operation::Share => Self::Share(parse(bytes)?),
            Operation::Promote => Self::Promote(parse(bytes)?),
            Operation::PutPool => Self::Pool(parse(bytes)?),
            Operation::LabelNode => Self::Labels(parse(bytes)?),
            Operation::PutSnapshot => Self::Snapshot(parse(bytes)?),
            Operation::Drill if bytes.is_empty() => Self::Drill(DrillStart::default()),
            Operation::Drill => Self::Drill(parse(bytes)?),
            Operation::DrillReport => Self::DrillReport(parse(bytes)?),
            Operation::Recover if bytes.is_empty() => Self::Recover(Recover::default()),
            Operation::Recover => Self::Recover(parse(bytes)?),
            _ if bytes.is_empty() => Self::None,
            _ => return Err(Problem::new("bad-request", "the request takes no body")),
        })
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() { "invalid" } else { "bad-request" };
        Problem::new(code, format!("the body cannot be read: {error}"))
    })
}

impl Wish {
    pub(crate) fn read(
        operation: Operation,
        [name, host]: [String; 2],
        query: &Query,
        preconditions: Preconditions<'_>,
        body: &[u8],
    ) -> Result<Self, Problem> {
        let deadline = Instant::now() + query.timeout()?;
        let wish = Self {
            operation,
            name,
            host,
            body: Body::read(operation, body)?,
            must: preconditions.read(operation)?,
            force: query.is_set("force")?,
            with_snapshots: query.is_set("with-snapshots")?,
            is_dry: query.is_set("dry-run")?,
            if_plan: query.plan()?.map(str::to_owned),
            wait: Condition::read(query)?.map(|condition| (condition, deadline)),
        };
        if wish.kind().is_none() && wish.if_match().is_some() {
            return Err(Problem::field("If-Match", "a cluster has no revision of its spec"));
        }
        Ok(wish)
    }

    /// The revision of the spec that the user saw.
    pub(crate) const fn if_match(&self) -> Option<u64> {
        match self.must {
            Must::BeAt(revision) => Some(revision),
            Must::Anything | Must::BeNew => None,
        }
    }

    /// What it is about.
    pub(crate) const fn kind(&self) -> Option<Kind> {
        Some(match self.operation {
            Operation::PutPool | Operation::DeletePool | Operation::ForgetPool => Kind::Pools,
            Operation::LabelNode
            | Operation::Cordon
            | Operation::Uncordon
            | Operation::Drain
            | Operation::Undrain
            | Operation::ForgetNode => Kind::Nodes,
            Operation::PutSnapshot | Operation::DeleteSnapshot => Kind::Snapshots,
            Operation::Recover => return None,
            _ => Kind::Volumes,
        })
    }

    /// The planner's request for it: names become ids here, and the planner judges the rest.
    pub(crate) fn request(&self, world: &World) -> Result<Request, Problem> {
        if let Some(kind) = self.kind().filter(|_| self.if_match().is_some()) {
            subject(world, kind, &self.name)?;
        }
        let name = self.name.as_str();
        match (&self.operation, &self.body) {
            (Operation::PutPool, Body::Pool(put)) => self.put_pool(world, put),
            (Operation::DeletePool, _) => Ok(Request::DeletePool { pool: pool_id(world, name)? }),
            (Operation::ForgetPool, _) => Ok(Request::ForgetPool { pool: pool_id(world, name)? }),
            (Operation::PutSnapshot, Body::Snapshot(put)) => self.put_snapshot(world, put),
            (Operation::DeleteSnapshot, _) => {
                Ok(Request::DeleteSnapshot { snapshot: snapshot_id(world, name)? })
            }
            (Operation::Recover, Body::Recover(recover)) => Ok(Request::Recover {
                era: recover.era.unwrap_or_else(|| model::Era(Uuid::new_v4())),
                accept_data_loss: recover.accept_data_loss.iter().copied().collect(),
            }),
            (Operation::LabelNode, Body::Labels(labels)) => {
                Ok(Request::LabelNode { node: node_id(world, name)?, labels: labels.clone() })
            }
            (Operation::Cordon | Operation::Uncordon, _) => {
                let cordoned = self.operation == Operation::Cordon;
                Ok(Request::CordonNode { node: node_id(world, name)?, cordoned })
            }
            (Operation::Drain | Operation::Undrain, _) => {
                let draining = self.operation == Operation::Drain;
                Ok(Request::DrainNode { node: node_id(world, name)?, draining })
            }
            (Operation::ForgetNode, _) => Ok(Request::ForgetNode { node: node_id(world, name)? }),
            _ => self.volume_request(world),
        }
    }

    fn volume_request(&self, world: &World) -> Result<Request, Problem> {
        if let (Operation::PutVolume, Body::Volume(put)) = (&self.operation, &self.body) {
            return self.put_volume(world, put);
        }
        let volume = volume_id(world, &self.name)?;
        match (&self.operation, &self.body) {
            (Operation::DeleteVolume, _) => {
                let (with_snapshots, force) = (self.with_snapshots, self.force);
                Ok(Request::DeleteVolume { volume, with_snapshots, force })
            }
            (Operation::Publish, Body::Publication(put)) => Ok(Request::PublishVolume {
                volume,
                attempt: put.attempt.unwrap_or_else(|| model::AttemptId(Uuid::new_v4())),
                deadline: deadline(world, put.within),
                hosts: hosts(world, &put.hosts)?,
            }),
            (Operation::Unpublish, _) => {
                let host = host_id(world, &self.host)?;
                Ok(Request::UnpublishVolume { volume, host, force: self.force })
            }
            (Operation::Share, Body::Share(put)) => {
                let consumers = hosts(world, &put.consumers)?;
                Ok(Request::ShareVolume { volume, consumers })
            }
            (Operation::Unshare, _) => Ok(Request::ShareVolume { volume, consumers: [].into() }),
            (Operation::Promote, Body::Promote(promote)) => Ok(Request::PromoteVolume {
                volume,
                attempt: promote.attempt.unwrap_or_else(|| model::AttemptId(Uuid::new_v4())),
                replica: promote.replica,
                accept_data_loss: promote.accept_data_loss,
            }),
            (Operation::Drill, Body::Drill(DrillStart { on_last_copy })) => {
                let drill = plan::Drill::Strike { on_last_copy: *on_last_copy };
                Ok(Request::DrillVolume { volume, drill })
            }
            (Operation::DrillReport, Body::DrillReport(report)) => {
                let words = told(world, report)?;
                Ok(Request::DrillVolume { volume, drill: plan::Drill::Report { words } })
            }
            _ => Err(Problem::new("bad-request", "the body does not belong to the route")),
        }
    }

    fn put_volume(&self, world: &World, put: &VolumePut) -> Result<Request, Problem> {
        let known = volume_id(world, &self.name);
        if let Err(unreadable) = &known
            && &*unreadable.code == "unreadable"
        {
            return Err(unreadable.clone());
        }
        let stored = known.as_ref().ok().and_then(|id| world.volume(*id));
        refuse_unknown(&put.spec, stored.map(|view| &view.record.spec))?;
        let Ok(id) = known else {
            let id = put.id.unwrap_or_else(|| model::VolumeId(Uuid::new_v4()));
            let (name, labels) = (self.name.clone(), put.labels.clone());
            let spec = Box::new(put.spec.clone());
            return Ok(Request::CreateVolume { id, name, labels, spec });
        };
        if let Some(other) = put.id.filter(|other| *other != id) {
            let detail = format!("{:?} is volume {id}, not {other}", self.name);
            return Err(Problem::new("name-taken", detail));
        }
        let Some(view) = world.volume(id) else {
            return Err(Problem::not_found("volume", &self.name));
        };
        let old = &view.record;
        if self.must == Must::BeNew {
            // The planner says that it is the same, or what differs.
            let (name, labels) = (old.meta.name.clone(), put.labels.clone());
            let spec = Box::new(VolumeSpec { extra: old.spec.extra.clone(), ..put.spec.clone() });
            return Ok(Request::CreateVolume { id, name, labels, spec });
        }
        if !put.labels.is_empty() && put.labels != old.meta.labels {
            return Err(Problem::field("labels", "the labels of a volume are not changed"));
        }
        change_volume(id, &old.spec, &put.spec).or_else(|problem| {
            // Who read an older spec hears that first: the difference may be somebody else's.
            plan::check_spec(world, Subject::Volume(id), self.if_match())?;
            Err(problem)
        })
    }

    fn put_pool(&self, world: &World, put: &PoolPut) -> Result<Request, Problem> {
        let known = pool_id(world, &self.name).ok();
        let id = match (known, put.id) {
            (Some(known), Some(id)) if known != id => {
                let detail = format!("{:?} is pool {known}, not {id}", self.name);
                return Err(Problem::new("name-taken", detail));
            }
            (known, id) => known.or(id).unwrap_or_else(|| model::PoolId(Uuid::new_v4())),
        };
        let spec = model::PoolSpec::new(node_id(world, &put.node)?, put.disks.clone());
        let (name, labels) = (self.name.clone(), put.labels.clone());
        Ok(Request::CreatePool { id, name, labels, spec })
    }

    fn put_snapshot(&self, world: &World, put: &SnapshotPut) -> Result<Request, Problem> {
        let volume = volume_id(world, &put.volume)?;
        let known = snapshot_id(world, &self.name).ok().and_then(|id| world.snapshots.get(&id));
        // The same request is known by what its client made for it. The name alone says nothing: a
        // script that takes one each night under one name must hear that none was taken.
        let is_given = put.id.is_some() || put.attempt.is_some();
        let known = known.filter(|known| {
            is_given
                && put.id.is_none_or(|id| id == known.meta.id)
                && put.attempt.is_none_or(|attempt| attempt == known.spec.attempt)
        });
        let new = || model::SnapshotId(Uuid::new_v4());
        let attempt = || model::AttemptId(Uuid::new_v4());
        Ok(Request::CreateSnapshot {
            id: known.map(|known| known.meta.id).or(put.id).unwrap_or_else(new),
            name: self.name.clone(),
            volume,
            attempt: known.map(|k| k.spec.attempt).or(put.attempt).unwrap_or_else(attempt),
            deadline: deadline(world, put.within),
        })
    }
}

/// The one field of a volume's spec that differs, as a request.
fn change_volume(
    volume: model::VolumeId,
    old: &VolumeSpec,
    new: &VolumeSpec,
) -> Result<Request, Problem> {
    let differing = volume_differences(old, new);
    match differing.iter().map(|found| found.field.as_str()).collect::<Vec<_>>()[..] {
        [] => Ok(Request::ResizeVolume { volume, size: old.size }),
        ["spec.size"] => Ok(Request::ResizeVolume { volume, size: new.size }),
        ["spec.replicas"] => Ok(Request::ScaleVolume { volume, replicas: new.replicas }),
        ["spec.replicas", "spec.size"] => {
            let detail = "change the size and the count of replicas one after the other";
            Err(Problem::field("spec", detail))
        }
        _ => {
            let problem = Problem::new("conflict", "only size and replicas are changed so");
            Err(problem.with_differences(&differing))
        }
    }
}

/// A drill's result in a sentence.
fn told(world: &World, report: &DrillReport) -> Result<String, Problem> {
    let name = |text: &str| Ok::<_, Problem>(node_name(world, node_id(world, text)?));
    let (from, to) = (name(&report.from)?, name(&report.to)?);
    let DrillReport { gap, reads, writes, compared, wrong, changed, .. } = report;
    let moved = if from == to {
        format!("came back on {to}")
    } else {
        format!("moved from {from} to {to}")
    };
    let others =
        if *changed > 0 { format!(", {changed} changed by others") } else { String::new() };
    Ok(format!(
        "a drill ended: its target {moved}, the longest wait was {gap} over {reads} reads and \
         {writes} writes; {compared} blocks compared, {wrong} wrong{others}"
    ))
}

/// A part of a spec, and what of it this version does not know.
type Part = (&'static str, fn(&VolumeSpec) -> &model::Extra);

/// What is stored keeps fields of a newer version. A user may send them back as they were read; any
/// other is a slip of the pen.
fn refuse_unknown(given: &VolumeSpec, stored: Option<&VolumeSpec>) -> Result<(), Problem> {
    let parts: [Part; 3] = [
        ("spec", |spec| &spec.extra),
        ("spec.topology", |spec| &spec.topology.extra),
        ("spec.policy", |spec| &spec.policy.extra),
    ];
    for (part, extra) in parts {
        let is_stored =
            |key: &String, value| stored.is_some_and(|old| extra(old).get(key) == value);
        let mut given = extra(given).iter();
        if let Some((key, _)) = given.find(|(key, value)| !is_stored(key, Some(value))) {
            return Err(Problem::field(format!("{part}.{key}"), "there is no such field"));
        }
    }
    Ok(())
}

fn hosts(
    world: &World,
    names: &[String],
) -> Result<std::collections::BTreeSet<model::HostId>, Problem> {
    names.iter().map(|name| host_id(world, name)).collect()
}

fn deadline(world: &World, within: Option<model::Millis>) -> Time {
    let default = |span: Duration| model::Millis(u64::try_from(span.as_millis()).unwrap_or(0));
    world.now + within.unwrap_or_else(|| default(limits::ATTEMPT_DEFAULT))
}
