//! Waiting for a condition, so that a client need not ask again and again.

use model::{Publication, SnapshotStage, Subject};
use plan::{Plan, World};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    Backend, Health, Problem, limits,
    query::Query,
    read::{Kind, host_id, node_id, pool_id, snapshot_id, volume_id},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Made and ready to use, published if that was asked for.
    Available,
    /// As it was asked for.
    Healthy,
    Gone,
    /// Nothing is left on the node.
    Drained,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Met,
    NotYet,
    /// There is nothing to wait for.
    Absent,
    /// It will not come true by itself.
    Failed(String),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Met,
    TimedOut,
}

pub(crate) const WORDS: &[&str] = &["available", "healthy", "gone", "drained"];

impl Condition {
    pub(crate) fn read(query: &Query) -> Result<Option<Self>, Problem> {
        Ok(Some(match query.get("wait") {
            None => return Ok(None),
            Some("available") => Self::Available,
            Some("healthy") => Self::Healthy,
            Some("gone") => Self::Gone,
            Some("drained") => Self::Drained,
            Some(_) => {
                let words = WORDS.join(", ");
                return Err(Problem::field("wait", format!("it must be one of {words}")));
            }
        }))
    }

    fn check(self, world: &World, kind: Kind, name: &str) -> Progress {
        if kind.is_part() {
            return self.check_part(world, kind, name);
        }
        let subject = match subject(world, kind, name) {
            Ok(subject) => subject,
            // It is there, and nobody knows how.
            Err(problem) if &*problem.code == "unreadable" => return Progress::NotYet,
            Err(_) if self == Self::Gone => return Progress::Met,
            Err(_) => return Progress::Absent,
        };
        let met = match self {
            Self::Gone => false,
            Self::Healthy => is_healthy(world, subject),
            Self::Drained => match subject {
                // What nobody can read may be on it.
                Subject::Node(id) => {
                    world.index.volume_ids_on(id).next().is_none()
                        && world.unreadable_volume().is_none()
                }
                _ => return Progress::Failed("only a node is drained".into()),
            },
            Self::Available => return available(world, subject),
        };
        if met { Progress::Met } else { Progress::NotYet }
    }
}

impl Condition {
    /// Parts come and go while their volume or node stays.
    fn check_part(self, world: &World, kind: Kind, name: &str) -> Progress {
        let found = crate::read::one(world, kind, name).ok();
        let met = match (self, found) {
            (Self::Gone, found) => found.is_none(),
            (Self::Drained, _) => return Progress::Failed("only a node is drained".into()),
            (Self::Healthy, Some(part)) if kind == Kind::Replicas => part["healthy"] == true,
            (_, Some(part)) if kind == Kind::Replicas => part["seen"] == "online",
            (_, Some(part)) if kind == Kind::Targets => part["seen"] == "serving",
            (_, Some(part)) if kind == Kind::Shares => part["layout"]["endpoint"].is_string(),
            (_, Some(_)) => true,
            // A volume's target and share may still come; the others are not waited for.
            (_, None) if matches!(kind, Kind::Targets | Kind::Shares) => {
                match volume_id(world, name) {
                    Ok(_) => false,
                    Err(_) => return Progress::Absent,
                }
            }
            (_, None) => return Progress::Absent,
        };
        if met { Progress::Met } else { Progress::NotYet }
    }
}

pub(crate) fn subject(world: &World, kind: Kind, name: &str) -> Result<Subject, Problem> {
    match kind {
        Kind::Nodes => node_id(world, name).map(Subject::Node),
        Kind::Pools => pool_id(world, name).map(Subject::Pool),
        Kind::Snapshots => snapshot_id(world, name).map(Subject::Snapshot),
        Kind::Hosts => host_id(world, name).map(Subject::Host),
        _ => volume_id(world, name).map(Subject::Volume),
    }
}

fn is_healthy(world: &World, subject: Subject) -> bool {
    let status = plan::status(world, subject, &Plan::default());
    status.is_some_and(|status| status.health == Health::Healthy)
}

fn available(world: &World, subject: Subject) -> Progress {
    let met = match subject {
        Subject::Volume(id) => {
            let Some(view) = world.volume(id) else { return Progress::NotYet };
            let wanted = view.record.spec.publish.as_ref().map(|publish| publish.attempt);
            if let Publication::Failed { attempt, reason } = &view.record.layout.publication
                && wanted == Some(*attempt)
            {
                return Progress::Failed(reason.clone());
            }
            crate::read::is_available(&view.record)
        }
        Subject::Snapshot(id) => match world.snapshots.get(&id).map(|s| &s.layout.stage) {
            Some(SnapshotStage::Failed { reason }) => return Progress::Failed(reason.clone()),
            stage => stage == Some(&SnapshotStage::Ready),
        },
        _ => is_healthy(world, subject),
    };
    if met { Progress::Met } else { Progress::NotYet }
}

/// Looks at every change, but not more often than is good for all.
pub(crate) async fn wait<B: Backend>(
    backend: &B,
    kind: Kind,
    name: &str,
    condition: Condition,
    deadline: Instant,
) -> Result<Waited, Problem> {
    let mut turns = backend.turns();
    loop {
        turns.mark_unchanged();
        let owned = name.to_owned();
        let look = move |seen: &crate::Seen<'_>| condition.check(seen.world, kind, &owned);
        match backend.look(look).await? {
            Progress::Met => return Ok(Waited::Met),
            Progress::Failed(reason) => return Err(Problem::new("attempt-failed", reason)),
            Progress::Absent => return Err(Problem::not_found(kind.noun(), name)),
            Progress::NotYet => {}
        }
        match timeout_at(deadline, turns.changed()).await {
            Ok(Ok(())) => sleep(limits::LOOK_EVERY).await,
            Ok(Err(_)) => return Err(Problem::new("unavailable", "the controller stopped")),
            Err(_) => return Ok(Waited::TimedOut),
        }
    }
}
