//! A commit and the records it led to, seen as changes: both sides of everything it touched.

use alloc::{boxed::Box, collections::BTreeMap, collections::BTreeSet};

use model::{
    Epoch, Host, HostId, Key, Membership, Node, NodeId, Pool, PoolId, Replica, Severity, Snapshot,
    SnapshotId, Volume, VolumeId,
};

use crate::{Author, Commit, Records};

#[derive(Clone, Copy, Debug)]
pub struct Committed<'a> {
    /// After the commit.
    pub records: &'a Records,
    pub commit: &'a Commit,
}

/// One touched record; `None` where it was or is absent.
#[derive(Debug)]
pub struct Change<'a, Id, T> {
    pub id: Id,
    pub before: Option<&'a T>,
    pub after: Option<&'a T>,
}

/// A volume of which the layout or the membership record was touched: they are judged together.
#[derive(Clone, Copy, Debug)]
pub struct VolumeChange<'a> {
    pub volume: Change<'a, VolumeId, Volume>,
    pub membership: Change<'a, VolumeId, Membership>,
}

impl<'a> Committed<'a> {
    /// Starts a new era, or belongs to that work.
    pub fn is_recovery(self) -> bool {
        let era = self.records.cluster.as_ref().map(|cluster| cluster.era);
        let new_era = self.commit.era_before.is_some() && self.commit.era_before != era;
        new_era || self.commit.author == Author::Recovery
    }

    pub fn volumes(self) -> impl Iterator<Item = VolumeChange<'a>> {
        let only_membership =
            self.commit.memberships.keys().filter(|id| !self.commit.volumes.contains_key(id));
        self.commit.volumes.keys().chain(only_membership).map(move |id| self.volume(*id))
    }

    /// Both sides of a volume, touched or not.
    pub fn volume(self, id: VolumeId) -> VolumeChange<'a> {
        VolumeChange {
            volume: change(&self.commit.volumes, &self.records.volumes, id),
            membership: change(&self.commit.memberships, &self.records.memberships, id),
        }
    }

    pub fn nodes(self) -> impl Iterator<Item = Change<'a, NodeId, Node>> {
        changes(&self.commit.nodes, &self.records.nodes)
    }

    pub fn pools(self) -> impl Iterator<Item = Change<'a, PoolId, Pool>> {
        changes(&self.commit.pools, &self.records.pools)
    }

    pub fn snapshots(self) -> impl Iterator<Item = Change<'a, SnapshotId, Snapshot>> {
        changes(&self.commit.snapshots, &self.records.snapshots)
    }

    pub fn hosts(self) -> impl Iterator<Item = Change<'a, HostId, Host>> {
        changes(&self.commit.hosts, &self.records.hosts)
    }

    /// The last step of forgetting may take the record itself, so both sides tell.
    pub fn is_written_off(self, pool: PoolId, node: NodeId) -> bool {
        let before = change(&self.commit.pools, &self.records.pools, pool).before;
        before.is_some_and(|pool| pool.spec.forgotten)
            || self.records.is_written_off(pool, node)
            || self.is_node_written_off(node)
    }

    pub fn is_node_written_off(self, node: NodeId) -> bool {
        let before = change(&self.commit.nodes, &self.records.nodes, node).before;
        before.is_some_and(|node| node.spec.forgotten) || self.records.is_node_written_off(node)
    }

    /// A permanent mark was left in the events.
    pub fn tells_of_loss(self) -> bool {
        let written = self.commit.events.keys();
        written.filter_map(|number| self.records.events.get(number)).any(|s| *s == Severity::Loss)
    }

    /// The records whose state the commit may have broken: what it wrote, and what refers to that.
    pub fn keys_in_question(self) -> BTreeSet<Key> {
        let mut keys: BTreeSet<Key> = self.commit.keys.iter().map(standing_for).collect();
        let gone_nodes = self.nodes().any(|node| node.after.is_none());
        let gone = gone_nodes
            || self.pools().any(|pool| pool.after.is_none())
            || self.hosts().any(|host| host.after.is_none());
        if gone {
            // Rare, and whoever refers to it is not known without looking at all.
            keys.extend(self.records.keys());
            return keys;
        }
        for change in self.volumes().filter(|change| change.dropped().next().is_some()) {
            let of_volume = |snapshot: &Snapshot| snapshot.spec.volume == change.volume.id;
            let snapshots = self.records.snapshots.values().filter(|snapshot| of_volume(snapshot));
            keys.extend(snapshots.map(|snapshot| Key::Snapshot(snapshot.meta.id)));
        }
        keys
    }
}

// By hand: a derive would ask for records that can be copied, and only references are.
impl<Id: Copy, T> Copy for Change<'_, Id, T> {}
impl<Id: Copy, T> Clone for Change<'_, Id, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, Id: Copy, T> Change<'a, Id, T> {
    /// Both sides, of what is neither made nor removed here.
    pub fn both(self) -> Option<(&'a T, &'a T)> {
        Some((self.before?, self.after?))
    }
}

impl<'a> VolumeChange<'a> {
    pub fn key(self) -> Key {
        Key::Volume(self.volume.id)
    }

    /// Nobody ever wrote to the volume, before and after: all copies are as they were made.
    pub fn is_blank(self) -> bool {
        self.membership.both().is_some_and(|(before, after)| is_blank(before) && is_blank(after))
    }

    /// A person accepted data loss, and this commit acts on it.
    pub fn is_promotion(self) -> bool {
        let (Some((before, after)), Some(asked)) =
            (self.volume.both(), self.volume.after.and_then(|volume| volume.spec.promote.as_ref()))
        else {
            return false;
        };
        after.layout.promotions.contains(&asked.attempt)
            && !before.layout.promotions.contains(&asked.attempt)
    }

    /// Replicas that the layout no longer has.
    pub fn dropped(self) -> impl Iterator<Item = &'a Replica> {
        missing_from(self.volume.after, self.volume.before)
    }

    /// Replicas that the layout did not have.
    pub fn placed(self) -> impl Iterator<Item = &'a Replica> {
        missing_from(self.volume.before, self.volume.after)
    }

    /// It issues, abandons or re-issues the volume's epoch.
    pub fn raises_epoch(self) -> bool {
        self.membership.both().is_some_and(|(before, after)| before.epoch < after.epoch)
    }
}

/// Copies in the layout that may be read and counted, as the membership says.
pub(crate) fn healthy_copies<'a>(
    volume: &'a Volume,
    membership: &'a Membership,
) -> impl Iterator<Item = &'a Replica> {
    volume.layout.replicas.iter().filter(|replica| membership.is_healthy(replica.id))
}

pub(crate) fn is_blank(membership: &Membership) -> bool {
    membership.epoch == Epoch::ZERO && membership.owner.is_none() && membership.clean
}

fn missing_from<'a>(
    from: Option<&'a Volume>,
    of: Option<&'a Volume>,
) -> impl Iterator<Item = &'a Replica> {
    let replicas = of.into_iter().flat_map(|volume| &volume.layout.replicas);
    replicas.filter(move |replica| from.is_none_or(|from| from.replica(replica.id).is_none()))
}

fn standing_for(key: &Key) -> Key {
    match key {
        Key::Membership(id) => Key::Volume(*id),
        key => key.clone(),
    }
}

fn change<'a, Id: Ord + Copy, T>(
    old: &'a BTreeMap<Id, Option<Box<T>>>,
    new: &'a BTreeMap<Id, Box<T>>,
    id: Id,
) -> Change<'a, Id, T> {
    let after = new.get(&id).map(Box::as_ref);
    Change { id, before: old.get(&id).map_or(after, Option::as_deref), after }
}

fn changes<'a, Id: Ord + Copy, T>(
    old: &'a BTreeMap<Id, Option<Box<T>>>,
    new: &'a BTreeMap<Id, Box<T>>,
) -> impl Iterator<Item = Change<'a, Id, T>> {
    old.keys().map(|id| change(old, new, *id))
}
