//! What a replica remembers of the protocol between targets and replicas, across any crash.

use alloc::{collections::BTreeMap, vec::Vec};

use block::Bitmap;
use model::{Epoch, FlushMark, ReplicaId, Roster};
use serde::{Deserialize, Serialize};

/// Of one replica. Changed only by notes, so that the journal and memory cannot disagree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Header {
    /// The highest epoch that fenced it: nothing of a lower one is let in.
    pub epoch: Epoch,
    /// The newest membership change that it knows, and who was healthy then.
    pub roster: Roster,
    pub members: BTreeMap<ReplicaId, bool>,
    /// No target has written since the last one stopped cleanly.
    pub clean: bool,
    /// In this boot every acknowledged write that it took is still here. Another boot may have
    /// lost what was not flushed: see [`Header::is_intact`].
    pub intact: Option<Boot>,
    /// Regions that may differ from other replicas' after a crash.
    pub dirty: Bitmap,
    /// Peers that are not healthy, and what they lack.
    pub absent: BTreeMap<ReplicaId, Absent>,
    /// The last flush that a target counted on. It is noted before the flush is made, so that one
    /// sync is enough for both.
    pub flushed: FlushMark,
    /// What healthy peers are known to have flushed: the evidence if one of them is set back.
    pub peers: BTreeMap<ReplicaId, FlushMark>,
    /// NVMe reservations as their keeper encodes them: they outlive power loss with the data.
    pub reservations: Vec<u8>,
}

/// A stretch of time in which the device lost no power: the machine's boot, and the device was not
/// taken away and brought back. The death of a process alone does not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Boot(pub u128);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Absent {
    /// The roster that the peer had when it left: it may come back for `regions` alone only if it
    /// still has this one.
    pub base: Roster,
    /// The last flush that it had: with less it was set back, and lacks more than `regions`.
    pub flushed: FlushMark,
    /// Regions that it may lack.
    pub regions: Bitmap,
}

/// One change of a header, one record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A target of this epoch took it; older ones are out.
    Fence { epoch: Epoch },
    /// The membership changed, and a target may write from now on. `absent` is whole: a peer not in
    /// it is no longer absent. With `intact` it holds every acknowledged write from here on.
    Roster {
        roster: Roster,
        members: BTreeMap<ReplicaId, bool>,
        absent: BTreeMap<ReplicaId, Absent>,
        /// What the healthy ones have flushed.
        flushed: BTreeMap<ReplicaId, FlushMark>,
        intact: Option<Boot>,
    },
    /// Peers that are absent, told to a replica that is itself being copied to: its roster stays.
    Absent { absent: BTreeMap<ReplicaId, Absent> },
    /// About to be written to, and lacked by these peers.
    Dirty { regions: Vec<u64>, lacked_by: Vec<ReplicaId> },
    /// Equal on all replicas again, since they have flushed this.
    Clean { regions: Vec<u64>, flushed: BTreeMap<ReplicaId, FlushMark> },
    /// Copied to this peer and flushed there.
    Copied { peer: ReplicaId, regions: Vec<u64> },
    /// The target stopped cleanly: everything is flushed, and equal on all healthy replicas.
    Stopped,
    /// The whole state of its NVMe reservations.
    Reservations { state: Vec<u8> },
    /// The flush that begins now.
    Flushed { mark: FlushMark },
}

impl Header {
    /// Whether every acknowledged write that it took is still here, in this boot.
    pub fn is_intact(&self, boot: Boot) -> bool {
        self.clean || self.intact == Some(boot)
    }

    /// Taking the same note twice changes nothing more: replay may repeat it.
    pub fn take(&mut self, note: &Note) {
        match note {
            Note::Fence { epoch } => self.epoch = self.epoch.max(*epoch),
            Note::Roster { roster, members, absent, flushed, intact } => {
                self.roster = *roster;
                self.clean = false;
                self.intact = intact.or(self.intact);
                self.members.clone_from(members);
                self.absent.clone_from(absent);
                self.peers.clone_from(flushed);
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
            Note::Clean { regions, flushed } => {
                for region in regions {
                    self.dirty.remove(*region);
                }
                self.peers.clone_from(flushed);
            }
            Note::Copied { peer, regions } => {
                if let Some(absent) = self.absent.get_mut(peer) {
                    for region in regions {
                        absent.regions.remove(*region);
                    }
                }
            }
            Note::Stopped => {
                self.clean = true;
                self.dirty = Bitmap::new();
            }
            Note::Reservations { state } => self.reservations.clone_from(state),
            Note::Flushed { mark } => self.flushed = self.flushed.max(*mark),
        }
    }
}
