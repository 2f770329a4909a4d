//! Deletion: one transaction, and it never gets stuck.

use alloc::vec::Vec;

use model::Wait;

use super::Look;
use crate::{Action, Why};

/// The record goes at once; every replica and target becomes a tombstone of its node, and nobody
/// waits for a node that may never return.
pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    if !look.volume.spec.deleting {
        return None;
    }
    // Its snapshots go first, each by a step that waits for nobody either: together with them the
    // transaction could outgrow the store's limit.
    let snapshots = look.world.index.snapshots_of.get(&look.volume.meta.id);
    if let Some(first) = snapshots.and_then(|snapshots| snapshots.first()) {
        waits.push(Wait::SnapshotDeleted { snapshot: *first });
        return None;
    }
    Some((Action::DeleteVolume, Why::Asked))
}
