//! Faults on purpose, for tests: the process must be started for them by name.

use model::{Key, Record, SwitchoverStage};
use ports::Change;

/// The stage of a switchover at which the process ends, as if it were killed: as soon as the store
/// shows it, and before anything is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DieAt {
    Init,
    RepublishVolume,
    ReplacePath,
    DeleteTarget,
}

impl DieAt {
    /// Whether these changes record a switchover at that stage.
    pub(crate) fn is_in(self, changes: &[Change]) -> bool {
        changes.iter().any(|change| {
            let Change::Put(entry) = change else { return false };
            let Ok(key @ Key::Volume(_)) = entry.key.parse() else { return false };
            match Record::decode(&key, &entry.value, entry.modified) {
                Ok(Record::Volume(volume)) => {
                    volume.layout.switchover.is_some_and(|it| self.is(&it.stage))
                }
                _ => false,
            }
        })
    }

    const fn is(self, stage: &SwitchoverStage) -> bool {
        matches!(
            (self, stage),
            (Self::Init, SwitchoverStage::Init)
                | (Self::RepublishVolume, SwitchoverStage::RepublishVolume { .. })
                | (Self::ReplacePath, SwitchoverStage::ReplacePath { .. })
                | (Self::DeleteTarget, SwitchoverStage::DeleteTarget { .. })
        )
    }
}
