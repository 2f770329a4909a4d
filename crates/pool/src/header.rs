//! What a replica remembers of the protocol between targets and replicas, across any crash.

use alloc::{collections::BTreeMap, vec::Vec};

use block::Bitmap;
use model::{Epoch, ReplicaId, Roster};

/// Of one replica. Changed only by notes, so that the journal and memory cannot disagree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    /// The highest epoch that fenced it: nothing of a lower one is let in.
    pub epoch: Epoch,
    /// The newest membership change that it knows, and who was healthy then.
    pub roster: Roster,
    pub members: BTreeMap<ReplicaId, bool>,
    /// No target has written since the last one stopped cleanly.
    pub clean: bool,
    /// Regions that may differ from other replicas' after a crash.
    pub dirty: Bitmap,
    /// Peers that are not healthy, and what they lack.
    pub absent: BTreeMap<ReplicaId, Absent>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Absent {
    /// The roster that the peer had when it left: it may come back for `regions` alone only if it
    /// still has this one.
    pub base: Roster,
    /// Regions that it may lack.
    pub regions: Bitmap,
}

/// One change of a header, one record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A target of this epoch took it; older ones are out.
    Fence { epoch: Epoch },
    /// The membership changed. `absent` is whole: a peer not in it is no longer absent.
    Roster {
        roster: Roster,
        members: BTreeMap<ReplicaId, bool>,
        absent: BTreeMap<ReplicaId, Absent>,
    },
    /// Peers that are absent, told to a replica that is itself being copied to: its roster stays.
    Absent { absent: BTreeMap<ReplicaId, Absent> },
    /// About to be written to, and lacked by these peers.
    Dirty { regions: Vec<u64>, lacked_by: Vec<ReplicaId> },
    /// Equal on all replicas again.
    Clean { regions: Vec<u64> },
    /// Copied to this peer and flushed there.
    Copied { peer: ReplicaId, regions: Vec<u64> },
    /// A target writes from now on, or has stopped cleanly.
    Stopped { clean: bool },
}

impl Header {
    /// Taking the same note twice changes nothing more: replay may repeat it.
    pub fn take(&mut self, note: &Note) {
        match note {
            Note::Fence { epoch } => self.epoch = self.epoch.max(*epoch),
            Note::Roster { roster, members, absent } => {
                self.roster = *roster;
                self.members.clone_from(members);
                self.absent.clone_from(absent);
            }
            Note::Absent { absent } => self.absent.clone_from(absent),
            Note::Dirty { regions, lacked_by } => {
                self.dirty.extend(regions.iter().copied());
                for peer in lacked_by {
                    if let Some(absent) = self.absent.get_mut(peer) {
                        absent.regions.extend(regions.iter().copied());
                    }
                }
            }
            Note::Clean { regions } => {
                for region in regions {
                    self.dirty.remove(*region);
                }
            }
            Note::Copied { peer, regions } => {
                if let Some(absent) = self.absent.get_mut(peer) {
                    for region in regions {
                        absent.regions.remove(*region);
                    }
                }
            }
            Note::Stopped { clean } => self.clean = *clean,
        }
    }
}
