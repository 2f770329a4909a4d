//! One look at a volume: its records, and how each copy stands.

use alloc::vec::Vec;

use model::{Membership, NodeId, Replica, ReplicaId, ReplicaSeen, ReplicaStage, Target, Volume};

use crate::{
    World,
    world::{Loss, Standing},
};

#[derive(Debug)]
pub struct Look<'a> {
    pub world: &'a World,
    pub volume: &'a Volume,
    pub membership: &'a Membership,
    pub copies: Vec<Copy<'a>>,
}

/// One copy and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    pub replica: &'a Replica,
    pub standing: Standing<'a>,
    /// It holds every acknowledged write, as far as the membership record says.
    pub healthy: bool,
    /// Its node is being drained.
    pub draining: bool,
}

impl<'a> Copy<'a> {
    pub fn seen(&self) -> Option<&'a ReplicaSeen> {
        match self.standing {
            Standing::Usable(seen) => Some(seen),
            _ => None,
        }
    }

    pub fn loss(&self) -> Option<Loss> {
        match self.standing {
            Standing::Lost(loss) => Some(loss),
            _ => None,
        }
    }

    pub fn is_usable(&self) -> bool {
        self.seen().is_some()
    }

    /// Holds all data and can be read now.
    pub fn is_good(&self) -> bool {
        self.healthy && self.is_usable()
    }

    pub fn is_retiring(&self) -> bool {
        self.replica.stage == ReplicaStage::Retiring
    }
}

impl<'a> Look<'a> {
    pub fn new(world: &'a World, volume: &'a Volume, membership: &'a Membership) -> Self {
        let copy = |replica: &'a Replica| Copy {
            replica,
            standing: world.standing(volume, replica),
            healthy: membership.is_healthy(replica.id),
            draining: world.node(replica.node).is_some_and(|view| view.record.spec.draining),
        };
        let copies = volume.layout.replicas.iter().map(copy).collect();
        Self { world, volume, membership, copies }
    }

    pub fn copy(&self, id: ReplicaId) -> Option<&Copy<'a>> {
        self.copies.iter().find(|copy| copy.replica.id == id)
    }

    /// Copies that hold all data and can be read now.
    pub fn good(&self) -> impl Iterator<Item = &Copy<'a>> {
        self.copies.iter().filter(|copy| copy.is_good())
    }

    pub fn wanted(&self) -> usize {
        usize::from(self.volume.spec.replicas)
    }

    pub fn target(&self) -> Option<&'a Target> {
        self.volume.layout.target.as_ref()
    }

    /// No target may write the membership record, so the controller may.
    pub fn is_unowned(&self) -> bool {
        self.target().is_none() && self.volume.layout.switchover.is_none()
    }

    /// Nobody ever wrote to the volume: all copies are as they were made.
    pub fn is_blank(&self) -> bool {
        self.is_unowned()
            && self.membership.epoch == model::Epoch::ZERO
            && self.membership.owner.is_none()
    }

    pub fn has_copy_on(&self, node: NodeId) -> bool {
        self.good().any(|copy| copy.replica.node == node)
    }
}
