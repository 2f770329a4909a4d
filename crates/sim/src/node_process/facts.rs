//! What judges see of a node: what lies in its pools, and what its targets do.

use std::collections::{BTreeMap, BTreeSet};

use block::{Buffer, Extent};
use model::{Bytes, Epoch, HostId, PoolId, ReplicaId, SnapshotId, VolumeId};
use pool::{Image, Import, ImportOptions, ImportStep, Io, Out, Pool, Request, RequestId, SimDisk};

use super::{Hardware, NodeProcess, OpenedDisk};
use crate::{
    Oracle,
    fakes::disk::{BLOCKS, Disk, Disks, PoolDisk, ReplicaDisk, SnapshotDisk, UNKNOWN},
    names,
};

/// A target as it is, whatever the records say.
#[derive(Clone, Debug)]
pub struct TargetFacts {
    pub volume: VolumeId,
    pub epoch: Epoch,
    pub hosts: BTreeSet<HostId>,
    pub is_serving: bool,
    /// It acknowledges nothing until it has excluded a replica.
    pub is_held_up: bool,
    /// The replicas whose answers an acknowledgement waits for.
    pub acknowledging: BTreeSet<ReplicaId>,
}

/// Where the blocks lie that hosts write: apart, and in the smallest volume.
pub(crate) const fn place(block: usize) -> u64 {
    block as u64 * 200 + 3
}

/// A block that holds this value throughout.
pub(crate) fn filled(value: u64) -> Buffer {
    Buffer::copy_of(&value.to_le_bytes().repeat(block::BLOCK / 8))
}

/// The oldest value that a block holds: a write that was never answered may have been torn.
pub(crate) fn value(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).min().unwrap_or(0)
}

impl NodeProcess {
    pub fn inventory(&self) -> model::Inventory {
        self.machine.look()
    }

    pub fn targets(&self) -> Vec<TargetFacts> {
        self.machine.targets().map(|(volume, target)| self.target_facts(volume, target)).collect()
    }

    pub fn target(&self, volume: VolumeId) -> Option<TargetFacts> {
        self.machine.target(volume).map(|target| self.target_facts(volume, target))
    }

    pub fn tell_target(&self, volume: VolumeId) -> Option<String> {
        self.machine.target(volume).map(|target| format!("{target:?}"))
    }

    fn target_facts(&self, volume: VolumeId, target: &mirror::Target<Buffer>) -> TargetFacts {
        TargetFacts {
            volume,
            epoch: target.epoch(),
            hosts: self.machine.hosts_of(volume),
            is_serving: target.is_serving(),
            is_held_up: target.is_held_up(),
            acknowledging: target.acknowledging().collect(),
        }
    }

    /// Looks at all pools that are open; at what these volumes hold as well, or what all do.
    pub fn refresh(
        &self,
        disks: &mut Disks,
        hardware: &Hardware,
        volumes: &BTreeSet<VolumeId>,
        oracle: &mut Oracle,
    ) {
        for (id, OpenedDisk { path, plugged }) in &self.opened {
            // What a process believes of a disk that was pulled is over.
            let device = hardware.disk(path).filter(|_| hardware.is_plugged(path, *plugged));
            let (Some(pool), Some(device)) = (self.machine.pool(*id), device) else { continue };
            let Some(disk) = disks.by_path.get_mut(path) else { continue };
            let before = disk.pool.take().filter(|before| before.id == *id);
            let now = pool_facts(*id, pool, device, before.as_ref(), volumes);
            for (replica, was) in before.iter().flat_map(|before| &before.replicas) {
                if let Some(is) = now.replicas.get(replica) {
                    oracle.admitted(*replica, was.epoch, is.epoch);
                }
            }
            disk.pool = Some(now);
        }
    }
}

/// Looks at disks that no engine uses: those of a machine where none runs, or one that is pulled.
pub(crate) fn refresh_at_rest(
    disks: &mut Disks,
    hardware: &Hardware,
    is_at_rest: impl Fn(&Disk) -> bool,
    oracle: &mut Oracle,
) {
    for (path, disk) in disks.by_path.iter_mut().filter(|(_, disk)| is_at_rest(disk)) {
        let Some(known) = &disk.pool else { continue };
        let Some(device) = hardware.disk(path) else { continue };
        let mut device = device.clone();
        match import(&mut device, hardware) {
            Ok(pool) => {
                let facts = pool_facts(known.id, &pool, &device, None, &BTreeSet::new());
                disk.pool = Some(facts);
            }
            Err(error) => {
                let words = format!("pool {} cannot be opened: {error}", names::label(known.id.0));
                oracle.break_promise("pools-survive-crashes", words);
            }
        }
    }
}

/// Opens a copy of a disk.
fn import(device: &mut SimDisk, hardware: &Hardware) -> Result<Pool, String> {
    device.fail_reads(false);
    device.fail_syncs(false);
    device.fail_writes(None);
    let (blocks, boot) = (device.blocks(), hardware.boot());
    let options = ImportOptions { blocks, boot, discard: false, flaws: pool::Flaws::default() };
    let mut import = Import::new(options);
    loop {
        match import.poll() {
            Some(ImportStep::Io { id, io }) => device.submit(id, io),
            Some(ImportStep::Done(result)) => {
                return result.map(|imported| imported.pool).map_err(|error| error.to_string());
            }
            None => match device.complete() {
                Some((id, result)) => import.io_done(id, result),
                None => return Err("nothing is under way".into()),
            },
        }
    }
}

fn pool_facts(
    id: PoolId,
    pool: &Pool,
    device: &SimDisk,
    before: Option<&PoolDisk>,
    volumes: &BTreeSet<VolumeId>,
) -> PoolDisk {
    let mut reader = Reader { pool, copy: None, device };
    let replicas = pool.replicas().map(|state| {
        let known = before.and_then(|before| before.replicas.get(&state.replica));
        let known_blocks = known.map(|known| known.blocks).filter(is_known);
        let blocks = match known_blocks {
            Some(blocks) if !volumes.contains(&state.volume) => blocks,
            _ => reader.blocks(Image::Replica(state.replica)),
        };
        let facts = ReplicaDisk {
            volume: state.volume,
            size: Bytes(state.blocks * block::BLOCK as u64),
            thin: state.thin,
            epoch: state.header.epoch,
            roster: state.header.roster,
            members: state.header.members.clone(),
            birth: state.birth,
            blocks,
            snapshots: snapshots(pool, &mut reader, state.replica, known),
        };
        (state.replica, facts)
    });
    let stats = pool.stats();
    PoolDisk {
        id,
        capacity: stats.capacity,
        used: stats.used.saturating_add(stats.reserved).saturating_add(stats.quarantined),
        mark: pool.mark(),
        replicas: replicas.collect(),
    }
}

fn snapshots(
    pool: &Pool,
    reader: &mut Reader<'_>,
    replica: ReplicaId,
    known: Option<&ReplicaDisk>,
) -> BTreeMap<SnapshotId, SnapshotDisk> {
    let of = pool.snapshots().filter(|found| found.replica == replica);
    let told = of.map(|found| {
        let known = known.and_then(|known| known.snapshots.get(&found.snapshot));
        // A snapshot that was taken back may have been taken anew since.
        let is_same = |known: &&SnapshotDisk| known.attempt == found.attempt;
        let known = known.filter(is_same).filter(|known| is_known(&known.blocks)).cloned();
        let facts = known.unwrap_or_else(|| SnapshotDisk {
            attempt: found.attempt,
            blocks: reader.blocks(Image::Snapshot(replica, found.snapshot)),
        });
        (found.snapshot, facts)
    });
    told.collect()
}

fn is_known(blocks: &[u64; BLOCKS]) -> bool {
    !blocks.contains(&UNKNOWN)
}

/// Reads through a copy of the pool, so that the pool itself knows nothing of it. What waits there
/// for something that is under way cannot be read.
struct Reader<'a> {
    pool: &'a Pool,
    copy: Option<Box<Pool>>,
    device: &'a SimDisk,
}

impl Reader<'_> {
    fn blocks(&mut self, image: Image) -> [u64; BLOCKS] {
        core::array::from_fn(|block| self.read(image, place(block)).unwrap_or(UNKNOWN))
    }

    fn read(&mut self, image: Image, at: u64) -> Option<u64> {
        const MINE: RequestId = RequestId(u64::MAX);
        let pool = self.copy.get_or_insert_with(|| Box::new(self.pool.clone()));
        pool.submit(MINE, Request::Read { image, extent: Extent::new(at, 1) });
        while let Some(out) = pool.poll() {
            match out {
                Out::Io { id, io: Io::Read { offset, len } } => {
                    let read = self.device.read(offset, len)?;
                    pool.io_done(id, Ok(Some(read)));
                }
                Out::Done { request: MINE, result } => {
                    return match result {
                        Ok(pool::Reply::Data(data)) => Some(value(data.bytes())),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        None
    }
}
