//! What must be true of data: the judge that no machine of the cluster can see.
//!
//! Every write has a number that is higher than all before it, and writes of one block are made one
//! after another (hosts that share a volume have blocks of their own). So "not older than" is "not
//! lower than", and the last acknowledged number is all that must be remembered of a block.

mod check;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use model::{Epoch, HostId, NodeId, PoolId, ReplicaId, Time, VolumeId};

pub use self::check::{Copies, Truth};
use crate::{
    fakes::disk::{BLOCKS, ReplicaDisk},
    names,
};

#[derive(Debug, Default)]
pub struct Oracle {
    volumes: BTreeMap<VolumeId, Known>,
    /// Which block each number was issued for.
    issued: Vec<(VolumeId, usize)>,
    replicas: BTreeMap<ReplicaId, (PoolId, VolumeId)>,
    /// Volumes that several hosts may write at once.
    pub shared: BTreeSet<VolumeId>,
    /// Volumes whose state changed since they were last judged.
    pub touched: BTreeSet<VolumeId>,
    pub broken: Vec<Broken>,
    /// Data that was destroyed, to be judged by who knows the store.
    pub destroyed: Vec<Destroyed>,
    /// Work is slower by this factor.
    pub pace: u64,
    pub counts: Counts,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its name, which stays the same while a script is shrunk.
    pub promise: String,
    pub words: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destroyed {
    pub node: NodeId,
    pub replica: ReplicaId,
    pub pool: PoolId,
    pub volume: VolumeId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub writes: u64,
    pub reads: u64,
    pub serves: u64,
}

#[derive(Debug, Default)]
struct Known {
    blocks: [Block; BLOCKS],
    promotions: usize,
    /// Targets below this epoch belong to a history that a person gave up.
    given_up: Epoch,
    last_ack: Option<Time>,
}

#[derive(Debug, Default)]
struct Block {
    acked: u64,
    /// What a clone begins with, or what a promotion may have brought back.
    also: BTreeSet<u64>,
    /// The first write that was acknowledged since: whoever asks afterwards gets no less.
    replaced: Option<u64>,
}

impl Oracle {
    pub fn new() -> Self {
        // The number zero is what a block holds that was never written.
        Self { issued: vec![(VolumeId::from_u128(0), 0)], pace: 1, ..Self::default() }
    }

    pub fn is_shared(&self, volume: VolumeId) -> bool {
        self.shared.contains(&volume)
    }

    /// The number of the next write.
    pub fn issue(&mut self, volume: VolumeId, block: usize) -> u64 {
        let number = u64::try_from(self.issued.len()).unwrap_or(u64::MAX);
        self.issued.push((volume, block));
        number
    }

    /// The host was told by the target of this epoch that its write happened.
    pub fn acked(&mut self, now: Time, volume: VolumeId, epoch: Epoch, block: usize, value: u64) {
        self.counts.writes += 1;
        self.touched.insert(volume);
        let known = self.volumes.entry(volume).or_default();
        // Lost with the rest of that history: whether the target may still acknowledge is judged
        // beside.
        if epoch < known.given_up {
            return;
        }
        known.last_ack = Some(now);
        let known = &mut known.blocks[block];
        known.acked = known.acked.max(value);
        known.replaced.get_or_insert(value);
    }

    /// When a host was last told that a write of the volume happened.
    pub fn last_ack(&self, volume: VolumeId) -> Option<Time> {
        self.volumes.get(&volume).and_then(|known| known.last_ack)
    }

    /// The least that a read which begins now may return.
    pub fn floor(&self, volume: VolumeId, block: usize) -> u64 {
        self.volumes.get(&volume).map_or(0, |known| known.blocks[block].acked)
    }

    pub fn read(&mut self, volume: VolumeId, block: usize, floor: u64, value: u64, host: HostId) {
        self.counts.reads += 1;
        if !self.may_hold(volume, block, floor, value) {
            let promise = if value < floor { "stale-read" } else { "foreign-read" };
            let (volume, host) = (names::label(volume.0), names::label(host.0));
            let written = usize::try_from(value).ok().and_then(|at| self.issued.get(at));
            let whose = written.map_or(String::new(), |(volume, block)| {
                format!("; {value} is of block {block} of {}", names::label(volume.0))
            });
            let read = format!("{host} read {value} from block {block} of {volume}");
            let words = format!("{read}, {floor} was acknowledged{whose}");
            self.break_promise(promise, words);
        }
    }

    /// Whether a block may hold this value, given what was acknowledged.
    fn may_hold(&self, volume: VolumeId, block: usize, floor: u64, value: u64) -> bool {
        let also = self.volumes.get(&volume).is_some_and(|known| {
            let Block { also, replaced, .. } = &known.blocks[block];
            also.contains(&value) && replaced.is_none_or(|replaced| floor < replaced)
        });
        let own = usize::try_from(value).ok().and_then(|index| self.issued.get(index));
        also || (value >= floor && (value == 0 || own == Some(&(volume, block))))
    }

    /// A target began to serve. A late one may still believe in itself: its copies refuse it.
    pub fn serves(&mut self, volume: VolumeId) {
        self.counts.serves += 1;
        self.touched.insert(volume);
    }

    pub fn admitted(&mut self, replica: ReplicaId, before: Epoch, after: Epoch) {
        if after < before {
            let words = format!("{} admitted {after} after {before}", names::label(replica.0));
            self.break_promise("epochs-only-rise", words);
        }
    }

    pub fn made(&mut self, replica: ReplicaId, pool: PoolId, volume: VolumeId) {
        let first = *self.replicas.entry(replica).or_insert((pool, volume));
        self.touched.insert(volume);
        if first != (pool, volume) {
            let words = format!(
                "replica {} was made for {} in {}, and before for {} in {}",
                names::label(replica.0),
                names::label(volume.0),
                names::label(pool.0),
                names::label(first.1.0),
                names::label(first.0.0),
            );
            self.break_promise("ids-are-never-reused", words);
        }
    }

    pub fn destroyed(
        &mut self,
        node: NodeId,
        replica: ReplicaId,
        pool: PoolId,
        held: &ReplicaDisk,
    ) {
        self.destroyed.push(Destroyed { node, replica, pool, volume: held.volume });
        self.touched.insert(held.volume);
    }

    /// How many promotions of the volume there were so far, and the epoch it is at.
    pub fn promotions(&mut self, volume: VolumeId, count: usize, epoch: Epoch) {
        let known = self.volumes.entry(volume).or_default();
        if known.promotions < count {
            known.promotions = count;
            known.given_up = epoch;
            self.loss_accepted(volume);
        }
    }

    /// A person accepted data loss: whatever was ever written may be what is left.
    pub fn loss_accepted(&mut self, volume: VolumeId) {
        let issued = &self.issued;
        let known = self.volumes.entry(volume).or_default();
        for (block, state) in known.blocks.iter_mut().enumerate() {
            let own = issued.iter().enumerate().filter(|(_, of)| **of == (volume, block));
            state.also.extend(own.filter_map(|(number, _)| u64::try_from(number).ok()));
            state.also.insert(0);
            (state.acked, state.replaced) = (0, None);
        }
    }

    /// A clone begins with what its snapshot froze.
    pub fn cloned(&mut self, volume: VolumeId, blocks: [u64; BLOCKS]) {
        let known = self.volumes.entry(volume).or_default();
        for (block, value) in known.blocks.iter_mut().zip(blocks) {
            block.also.insert(value);
        }
    }

    pub fn break_promise(&mut self, promise: &str, words: String) {
        self.broken.push(Broken { promise: promise.into(), words });
    }
}
