//! What may be read, whatever happened.
//!
//! Per sector: any value from the last flushed one to the newest issued. After the death of the
//! process alone: from the last acknowledged one on. A snapshot reads as it was taken, for ever.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};

use block::{
    BLOCK,
    Durability::{self, Volatile},
    Extent,
};
use model::Epoch;

use super::world::{Cut, World, clone_of, filled, new_replica, replica, sector_of, snapshot, take};
use crate::{Crash, Error, Image, Note, Request, RequestId};

/// One thing that is asked of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Create(u128, u64),
    Thick(u128, u64),
    /// A replica from a snapshot.
    Clone(u128, u128, u64),
    Write(u128, Extent),
    Fua(u128, Extent),
    Zero(u128, Extent),
    Flush,
    /// A snapshot of a replica.
    Snap(u128, u128),
    DeleteSnap(u128, u128),
    Abort(u128, u128),
    Delete(u128),
    Resize(u128, u64),
    Note(u128, u64),
    Checkpoint,
    Grow(u64),
    Export,
    /// Until nothing is under way.
    Settle,
}

#[derive(Clone, Debug)]
struct Block {
    base: [u64; 8],
    later: Vec<Version>,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    fill: u64,
    is_acked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Life {
    Sure,
    /// Asked for and not answered.
    Coming,
    Going,
}

#[derive(Clone, Debug)]
struct Volume {
    life: Life,
    blocks: Vec<Block>,
    /// The size that was asked for, if that is not answered.
    resizing: Option<u64>,
    epoch: u64,
    noting: Option<u64>,
}

#[derive(Clone, Debug)]
struct Frozen {
    life: Life,
    sectors: Vec<[u64; 8]>,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    volumes: BTreeMap<u128, Volume>,
    /// By replica and snapshot.
    snapshots: BTreeMap<(u128, u128), Frozen>,
    fills: u64,
}

/// A step that was asked for: what it wrote, what a flush will have made durable.
#[derive(Clone, Debug)]
pub struct Asked {
    step: Step,
    fill: u64,
    covered: BTreeMap<u128, Vec<[u64; 8]>>,
}

impl Block {
    fn now(&self) -> [u64; 8] {
        let acked = self.later.iter().rev().find(|version| version.is_acked);
        acked.map_or(self.base, |version| [version.fill; 8])
    }

    /// `fills` is durable.
    fn settle(&mut self, fills: [u64; 8]) {
        if fills == self.base {
            return;
        }
        if let Some(at) = self.later.iter().position(|version| [version.fill; 8] == fills) {
            self.base = fills;
            self.later.drain(..=at);
        }
    }

    fn may_be(&self, sector: usize, fill: u64, crash: Crash) -> bool {
        let from = match crash {
            Crash::Power => None,
            Crash::Process => self.later.iter().rposition(|version| version.is_acked),
        };
        let base = from.is_none() && self.base[sector] == fill;
        base || self.later[from.unwrap_or(0)..].iter().any(|version| version.fill == fill)
    }
}

fn blank(count: u64) -> Vec<Block> {
    let count = usize::try_from(count).unwrap();
    vec![Block { base: [0; 8], later: Vec::new() }; count]
}

impl Volume {
    fn new(life: Life, blocks: Vec<Block>) -> Self {
        Self { life, blocks, resizing: None, epoch: 0, noting: None }
    }

    fn part(&mut self, extent: Extent) -> &mut [Block] {
        let at = |block: u64| usize::try_from(block).unwrap();
        &mut self.blocks[at(extent.start)..at(extent.end())]
    }
}

impl Model {
    /// The request for a step, and what to tell the model when it is answered.
    pub fn ask(&mut self, step: Step) -> (Option<Request>, Asked) {
        self.fills += 1;
        let fill = if matches!(step, Step::Zero(..)) { 0 } else { self.fills };
        let mut asked = Asked { step, fill, covered: BTreeMap::new() };
        let request = match step {
            Step::Create(id, blocks) | Step::Thick(id, blocks) => {
                self.volumes.insert(id, Volume::new(Life::Coming, blank(blocks)));
                let thin = matches!(step, Step::Create(..));
                Request::Create(Box::new(crate::NewReplica { thin, ..new_replica(id, blocks) }))
            }
            Step::Clone(id, of, blocks) => {
                self.start_clone(id, of, blocks);
                Request::Create(Box::new(clone_of(id, of, blocks)))
            }
            Step::Write(id, extent) | Step::Fua(id, extent) => {
                self.issue(id, extent, fill);
                let data = filled(extent, fill);
                let durability = Durability::from_fua(matches!(step, Step::Fua(..)));
                Request::Write { replica: replica(id), extent, data, durability }
            }
            Step::Zero(id, extent) => {
                self.issue(id, extent, fill);
                Request::Zero { replica: replica(id), extent, durability: Volatile }
            }
            Step::Flush => {
                asked.covered = self.now();
                Request::Flush
            }
            Step::Snap(id, of) => {
                asked.covered = self.now();
                asked.covered.retain(|volume, _| *volume == of);
                let sectors = asked.covered[&of].clone();
                self.snapshots.insert((of, id), Frozen { life: Life::Coming, sectors });
                take(id, of)
            }
            Step::DeleteSnap(id, of) => {
                self.snapshots.get_mut(&(of, id)).unwrap().life = Life::Going;
                Request::DeleteSnapshot { replica: replica(of), snapshot: snapshot(id) }
            }
            Step::Abort(id, of) => {
                if let Some(frozen) = self.snapshots.get_mut(&(of, id)) {
                    frozen.life = Life::Going;
                }
                let attempt = model::AttemptId::from_u128(id);
                Request::AbortSnapshot { replica: replica(of), attempt }
            }
            Step::Delete(id) => {
                self.volumes.get_mut(&id).unwrap().life = Life::Going;
                Request::Delete { replica: replica(id) }
            }
            Step::Resize(id, blocks) => {
                self.volumes.get_mut(&id).unwrap().resizing = Some(blocks);
                Request::Resize { replica: replica(id), blocks }
            }
            Step::Note(id, epoch) => {
                self.volumes.get_mut(&id).unwrap().noting = Some(epoch);
                let note = Box::new(Note::Fence { epoch: Epoch(epoch) });
                Request::Note { replica: replica(id), note }
            }
            Step::Checkpoint => Request::Checkpoint,
            Step::Grow(blocks) => Request::Grow { blocks },
            Step::Export => {
                asked.covered = self.now();
                Request::Export
            }
            Step::Settle => return (None, asked),
        };
        (Some(request), asked)
    }

    fn start_clone(&mut self, id: u128, of: u128, blocks: u64) {
        let origin = self.snapshots.iter().find(|((_, snapshot), _)| *snapshot == of).unwrap().1;
        let mut all = blank(blocks);
        for (block, sectors) in all.iter_mut().zip(&origin.sectors) {
            block.base = *sectors;
        }
        self.volumes.insert(id, Volume::new(Life::Coming, all));
    }

    fn issue(&mut self, id: u128, extent: Extent, fill: u64) {
        for block in self.volumes.get_mut(&id).unwrap().part(extent) {
            block.later.push(Version { fill, is_acked: false });
        }
    }

    /// What every acknowledged write left.
    fn now(&self) -> BTreeMap<u128, Vec<[u64; 8]>> {
        let now = |volume: &Volume| volume.blocks.iter().map(Block::now).collect();
        self.volumes.iter().map(|(id, volume)| (*id, now(volume))).collect()
    }

    /// The step was answered.
    pub fn answered(&mut self, asked: Asked, result: &Result<crate::Reply, Error>) {
        let Asked { step, fill, covered } = asked;
        if *result == Err(Error::NoSpace) {
            return self.refused(step, fill);
        }
        assert!(result.is_ok(), "{step:?}: {result:?}");
        for (id, sectors) in covered {
            let Some(volume) = self.volumes.get_mut(&id) else { continue };
            for (block, fills) in volume.blocks.iter_mut().zip(sectors) {
                block.settle(fills);
            }
        }
        match step {
            Step::Create(id, _) | Step::Thick(id, _) | Step::Clone(id, ..) => {
                self.volumes.get_mut(&id).unwrap().life = Life::Sure;
            }
            Step::Write(id, extent) | Step::Fua(id, extent) | Step::Zero(id, extent) => {
                let is_durable = matches!(step, Step::Fua(..));
                for block in self.volumes.get_mut(&id).unwrap().part(extent) {
                    let version = block.later.iter_mut().rev().find(|v| v.fill == fill).unwrap();
                    version.is_acked = true;
                    if is_durable {
                        block.settle([fill; 8]);
                    }
                }
            }
            Step::Snap(id, of) => self.snapshots.get_mut(&(of, id)).unwrap().life = Life::Sure,
            Step::DeleteSnap(id, of) | Step::Abort(id, of) => {
                self.snapshots.remove(&(of, id));
            }
            Step::Delete(id) => {
                self.volumes.remove(&id);
            }
            Step::Resize(id, _) => {
                let volume = self.volumes.get_mut(&id).unwrap();
                let blocks = volume.resizing.take().unwrap();
                volume.blocks.resize(usize::try_from(blocks).unwrap(), blank(1)[0].clone());
            }
            Step::Note(id, _) => {
                let volume = self.volumes.get_mut(&id).unwrap();
                volume.epoch = volume.noting.take().unwrap();
            }
            Step::Flush | Step::Checkpoint | Step::Grow(_) | Step::Export | Step::Settle => {}
        }
    }

    /// For want of space: as if it had not been asked for.
    fn refused(&mut self, step: Step, fill: u64) {
        match step {
            Step::Write(id, extent) | Step::Fua(id, extent) => {
                for block in self.volumes.get_mut(&id).unwrap().part(extent) {
                    block.later.retain(|version| version.fill != fill);
                }
            }
            Step::Create(id, _) | Step::Thick(id, _) => {
                self.volumes.remove(&id);
            }
            Step::Snap(id, of) => {
                self.snapshots.remove(&(of, id));
            }
            other => panic!("{other:?} needs no space"),
        }
    }

    /// Compares the pool with what is possible, and remembers what is true.
    pub fn check(&mut self, world: &mut World, crash: Crash) {
        self.check_lists(world);
        for (id, volume) in &mut self.volumes {
            let state = world.pool.replica(replica(*id)).unwrap();
            let (count, epoch) = (state.blocks, state.header.epoch.0);
            let possible = [Some(volume.epoch), volume.noting.take()];
            assert!(possible.contains(&Some(epoch)), "replica {id}: epoch {epoch} of {possible:?}");
            volume.epoch = epoch;
            let before = u64::try_from(volume.blocks.len()).unwrap();
            assert!(count == before || volume.resizing == Some(count), "replica {id}: {count}");
            volume.resizing = None;
            volume.blocks.resize(usize::try_from(count).unwrap(), blank(1)[0].clone());
            let seen = sectors(world, Image::Replica(replica(*id)), count);
            for (at, (block, seen)) in volume.blocks.iter_mut().zip(&seen).enumerate() {
                for (sector, fill) in seen.iter().enumerate() {
                    assert!(
                        block.may_be(sector, *fill, crash),
                        "replica {id}, block {at}, sector {sector}: {fill} is none of {block:?}"
                    );
                }
                *block = Block { base: *seen, later: Vec::new() };
            }
        }
        for ((of, id), frozen) in &self.snapshots {
            let image = Image::Snapshot(replica(*of), snapshot(*id));
            let count = u64::try_from(frozen.sectors.len()).unwrap();
            let seen = sectors(world, image, count);
            assert!(seen == frozen.sectors, "snapshot {id} of {of} changed");
        }
    }

    /// While it runs: what is read is what was acknowledged.
    pub fn check_live(&self, world: &mut World) {
        let (cut_at, ios) = (core::mem::replace(&mut world.cut_at, u64::MAX), world.ios);
        for (id, volume) in &self.volumes {
            let count = u64::try_from(volume.blocks.len()).unwrap();
            let seen = sectors(world, Image::Replica(replica(*id)), count);
            let now: Vec<_> = volume.blocks.iter().map(Block::now).collect();
            assert!(seen == now, "replica {id} does not read as written");
        }
        world.cut_at = cut_at.saturating_add(world.ios - ios);
    }

    fn check_lists(&mut self, world: &World) {
        let there: Vec<u128> =
            world.pool.replicas().map(|state| state.replica.0.as_u128()).collect();
        for id in &there {
            assert!(self.volumes.contains_key(id), "replica {id} came from nowhere");
        }
        self.volumes.retain(|id, volume| {
            let is_there = there.contains(id);
            assert!(is_there || volume.life != Life::Sure, "replica {id} is lost");
            volume.life = Life::Sure;
            is_there
        });
        let there: Vec<(u128, u128)> = world
            .pool
            .snapshots()
            .map(|state| (state.replica.0.as_u128(), state.snapshot.0.as_u128()))
            .collect();
        for key in &there {
            assert!(self.snapshots.contains_key(key), "snapshot {key:?} came from nowhere");
        }
        self.snapshots.retain(|key, frozen| {
            let is_there = there.contains(key);
            assert!(is_there || frozen.life != Life::Sure, "snapshot {key:?} is lost");
            frozen.life = Life::Sure;
            is_there
        });
    }
}

/// Which write each sector of an image is of.
fn sectors(world: &mut World, image: Image, count: u64) -> Vec<[u64; 8]> {
    let extent = Extent::new(0, u32::try_from(count).unwrap());
    let data = world.read(image, extent).expect("no cut while checking");
    let blocks = data.bytes().chunks_exact(BLOCK);
    (0u64..)
        .zip(blocks)
        .map(|(block, bytes)| {
            core::array::from_fn(|at| {
                let bytes = &bytes[at * 512..(at + 1) * 512];
                let fill = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                let whole = sector_of(block, u64::try_from(at).unwrap(), fill);
                assert!(*whole == *bytes, "{image:?}: block {block}, sector {at} is garbage");
                fill
            })
        })
        .collect()
}

/// A world and what may be read from it.
#[derive(Clone)]
pub struct Play {
    pub world: World,
    pub model: Model,
}

impl Play {
    pub fn new(world: World) -> Self {
        Self { world, model: Model::default() }
    }

    /// One step, and its answer.
    pub fn step(&mut self, step: Step) -> Result<(), Cut> {
        if let Step::Grow(blocks) = step {
            self.world.disk.grow(blocks);
        }
        let (request, asked) = self.model.ask(step);
        let Some(request) = request else { return self.world.settle() };
        let result = self.world.ask(request)?;
        self.model.answered(asked, &result);
        Ok(())
    }

    pub fn run(&mut self, steps: &[Step]) -> Result<(), Cut> {
        steps.iter().try_for_each(|step| self.step(*step))
    }

    /// Asks without waiting.
    pub fn begin(&mut self, step: Step) -> Option<(RequestId, Asked)> {
        let (request, asked) = self.model.ask(step);
        Some((self.world.submit(request?), asked))
    }

    pub fn crash(&mut self, crash: Crash) {
        self.world.crash(crash);
        self.model.check(&mut self.world, crash);
        self.world.check_accounts();
    }
}
