//! Calls a snapshot taken before any copy holds it.

use model::{SnapshotStage, Subject};
use plan::{Action, Step, Why};

use super::{BrokenBrain, bend::bent};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("finishes-snapshots-early", "calls a snapshot taken that is not", || {
        bent(|world, subject, mut plan| {
            let Subject::Snapshot(id) = subject else { return plan };
            let Some(snapshot) = world.snapshots.get(&id) else { return plan };
            let Some(view) = world.volume(snapshot.spec.volume) else { return plan };
            if snapshot.layout.stage == SnapshotStage::Taking && plan.step.is_none() {
                let layout = &view.record.layout;
                let copies = layout.replicas.iter().map(|replica| replica.id).collect();
                let action = Action::FinishSnapshot { copies, size: layout.exposed };
                plan.step = Some(Step { subject, action, why: Why::Observed });
            }
            plan
        })
    })
}
