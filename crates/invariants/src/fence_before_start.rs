//! HA-3, M-26: a target starts only when no write of an older one can land any more.
//!
//! At the commit that lets it start, every replica recorded healthy has durably admitted its epoch,
//! or its node cannot be reached. Only nodes that the simulator calls steady are judged: for the
//! others the controller may rightly have judged them dead. What a user has written off is not
//! waited for either: its engine is told nothing more, so it would admit nothing.

use alloc::format;

use model::TargetStage;

use crate::{Committed, Promise, Seen, broken::Report};

pub(crate) const PROMISE: Promise = Promise::new(
    "fence_before_start",
    "a target starts only when every reachable healthy replica refuses older ones",
)
.of_commits_beside_machines(check);

fn check(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let (Some((before, after)), Some(membership)) =
            (change.volume.both(), change.membership.before)
        else {
            continue;
        };
        let Some(target) = after.layout.target.as_ref().filter(|t| may_run(t.stage)) else {
            continue;
        };
        let was_running = before
            .layout
            .target
            .as_ref()
            .is_some_and(|was| was.epoch == target.epoch && may_run(was.stage));
        if was_running {
            continue;
        }
        let recorded = |id| membership.is_recorded_healthy(id);
        for replica in before.layout.replicas.iter().filter(|replica| recorded(replica.id)) {
            let found = seen.replica(replica.node, replica.pool, replica.id);
            if let Some(found) = found.filter(|found| found.epoch < target.epoch)
                && seen.steady.contains(&replica.node)
                && !committed.is_written_off(replica.pool, replica.node)
            {
                let words = format!(
                    "the target of epoch {} may start while replica {} on node {} admits epoch {}",
                    target.epoch, replica.id, replica.node, found.epoch
                );
                report.broken(change.key(), words);
            }
        }
    }
}

const fn may_run(stage: TargetStage) -> bool {
    matches!(stage, TargetStage::Starting | TargetStage::Serving)
}

#[cfg(test)]
mod tests;
