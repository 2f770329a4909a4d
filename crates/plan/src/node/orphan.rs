//! What a node has and no record names. It is collected only where absence proves deletion.

use alloc::{string::String, vec::Vec};

use model::{Buried, Cluster, Liveness, Mark, Subject, Wait, limits::ORPHAN_GRACE};

use crate::{
    Action, Step, Why, World,
    world::{NodeView, Verdict},
};

pub(super) fn rule(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Node(id) = subject else { return None };
    let view = world.node(id).filter(|view| !view.record.spec.forgotten)?;
    let cluster = world.cluster.as_ref()?;
    // The second look is at a node that can be told: what a dead one had is seen when it is back.
    let inventory = view.inventory.as_ref().filter(|_| view.liveness == Liveness::Alive)?;
    for (buried, orphan) in &view.orphans {
        let until = orphan.since + ORPHAN_GRACE;
        if world.now < until || inventory.sequence == orphan.first_sequence {
            waits.push(Wait::OrphanGrace { until });
            continue;
        }
        // Absence is judged now, whatever was true when it was first seen.
        if is_named(world, *buried) {
            continue;
        }
        match proof(world, view, cluster, *buried) {
            Ok(()) => {
                let action = Action::CollectOrphan { buried: *buried };
                return Some(Step { subject, action, why: Why::AbsenceProven });
            }
            Err(why) => {
                if let Buried::Replica { replica, .. } = buried {
                    waits.push(Wait::OrphanUnproven { replica: *replica, why });
                }
            }
        }
    }
    None
}

/// Whether a record knows it after all.
fn is_named(world: &World, buried: Buried) -> bool {
    match buried {
        Buried::Snapshot { snapshot, .. } => world.snapshots.contains_key(&snapshot),
        Buried::Replica { replica, .. } => world.index.replica_home.contains_key(&replica),
        Buried::Target { .. } | Buried::Pool { .. } => false,
    }
}

/// Whether the store, which does not know it, must have known it: both the orphan's birth and the
/// newest history its pool has seen lie in this store's past.
fn proof(world: &World, view: &NodeView, cluster: &Cluster, buried: Buried) -> Result<(), String> {
    let judge = |mark: Option<&Mark>| match mark {
        None => Err("it has no mark of any store".into()),
        Some(mark) => match world.history.judge(mark, cluster) {
            Verdict::Proven => Ok(()),
            Verdict::Unproven { why } | Verdict::Foreign { why } => Err(why),
        },
    };
    let inventory = view.inventory.as_ref();
    match buried {
        Buried::Replica { replica, pool } | Buried::Snapshot { replica, pool, .. } => {
            // Its node would not be told: a tombstone in a pool without a record says nothing.
            if world.pools.get(&pool).is_none_or(|view| view.record.spec.forgotten) {
                return Err("its pool is in no record".into());
            }
            // A volume whose record does not decode still owns its replicas.
            if let Some(lost) = world.quarantined.values().next() {
                return Err(alloc::format!("{} is quarantined and may name it", lost.key));
            }
            let seen = inventory.and_then(|inventory| inventory.replicas.get(&replica));
            judge(seen.and_then(|seen| seen.birth.as_ref()))?;
            let pool = inventory.and_then(|inventory| inventory.pools.get(&pool));
            judge(pool.and_then(|pool| pool.mark.as_ref()))
        }
        // A target holds no data. One that the layout has gone past is only in the way.
        Buried::Target { volume, epoch } => {
            let layout = world.volume(volume).map(|view| &view.record.layout);
            match layout {
                Some(layout) if layout.epoch <= epoch => Err("its epoch is not over".into()),
                Some(_) => Ok(()),
                None if world.quarantined.is_empty() => Ok(()),
                None => Err("a quarantined record may name it".into()),
            }
        }
        Buried::Pool { .. } => Err("it is not collected".into()),
    }
}
