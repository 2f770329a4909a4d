//! The store of the membership record: one record, changed only by compare-and-swap.

use mirror::StoreAnswer;
use model::{Membership, Revision};

#[derive(Debug)]
pub(super) struct Store {
    pub(super) record: Membership,
    /// As it was at the first claim.
    backup: Option<Membership>,
    /// Until then nobody is answered.
    pub(super) down_until: u64,
    /// Until then every answer takes this long.
    pub(super) slow: Option<(u64, u64)>,
    /// So many answers to come are lost, though the change was made.
    pub(super) lost_answers: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Ask {
    Read,
    Swap { record: Box<Membership>, expected: Revision },
}

impl Store {
    pub(super) const fn new(record: Membership) -> Self {
        Self { record, backup: None, down_until: 0, slow: None, lost_answers: 0 }
    }

    pub(super) fn answer(&mut self, ask: Ask) -> StoreAnswer {
        match ask {
            Ask::Read => StoreAnswer::Record(self.record.clone()),
            Ask::Swap { record, expected } => {
                if self.record.revision != expected || self.record.epoch != record.epoch {
                    return StoreAnswer::Conflict;
                }
                let revision = self.record.revision.next();
                self.record = *record;
                self.record.revision = revision;
                self.backup.get_or_insert_with(|| self.record.clone());
                StoreAnswer::Committed(revision)
            }
        }
    }

    /// The members are those of the backup again; the control plane sees to it that epochs only
    /// go up, and starts a new target.
    pub(super) fn set_back(&mut self) {
        let Some(backup) = self.backup.clone() else { return };
        let (epoch, revision) = (self.record.epoch, self.record.revision.next());
        self.record = Membership { epoch, revision, owner: None, ..backup };
    }

    /// The control plane raises the epoch, in one transaction with the layout.
    pub(super) fn raise(&mut self) -> u64 {
        self.record.epoch = self.record.epoch.next();
        self.record.owner = None;
        self.record.revision = self.record.revision.next();
        self.record.epoch.0
    }
}
