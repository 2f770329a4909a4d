//! What goes wrong, and when, from a seed. Faults overlap.

use pool::{Crash, Request, SimDisk};

use super::{
    node::{MAIN, SECOND},
    world::{Event, NODES, STORE, Stage, World, replica_id},
};
use crate::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The engine of a node is killed, and starts again after so many milliseconds.
    Kill {
        node: usize,
        down: u64,
    },
    Power {
        node: usize,
        down: u64,
    },
    PowerAll {
        down: u64,
    },
    /// Two nodes do not hear each other for a while.
    Cut {
        a: usize,
        b: usize,
        lasts: u64,
    },
    /// Nor does a node hear the store.
    Isolate {
        node: usize,
        lasts: u64,
    },
    /// A node and the store.
    StoreCut {
        node: usize,
        lasts: u64,
    },
    /// Every connection to a replica drops; what was sent may still arrive.
    Drop {
        node: usize,
    },
    StoreDown {
        lasts: u64,
    },
    StoreSlow {
        lasts: u64,
        by: u64,
    },
    StoreForgets,
    SyncFails {
        node: usize,
        lasts: u64,
    },
    WritesFail {
        node: usize,
        lasts: u64,
    },
    ReadsFail {
        node: usize,
        lasts: u64,
    },
    Stall {
        node: usize,
        lasts: u64,
    },
    /// The disk of another pool than the volume's ends nothing.
    Hang {
        node: usize,
        lasts: u64,
    },
    Full {
        node: usize,
        lasts: u64,
    },
    FullAll {
        lasts: u64,
    },
    Move {
        node: usize,
    },
    Snapshot,
    DeleteSnapshot,
    /// A pool writes its tables now.
    Checkpoint {
        node: usize,
    },
    /// The device and then the pool become larger.
    Grow {
        node: usize,
    },
    /// Power is lost, and one of the copies of the superblock is damaged.
    TornSuperblock {
        node: usize,
        down: u64,
    },
    /// The disk is replaced by a blank one, and the pool and the replica made again on it.
    Swap {
        node: usize,
        down: u64,
    },
    /// The store is restored from a backup of long ago.
    SetBack,
    /// The disk becomes again what it was `age` milliseconds before: an image was put back.
    DiskSetBack {
        node: usize,
        age: u64,
        down: u64,
    },
    /// Nobody may be copied to for a while.
    NoRebuild {
        lasts: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFault {
    /// In milliseconds.
    pub at: u64,
    pub fault: Fault,
}

impl Fault {
    pub const KINDS: &[&str] = &[
        "kill",
        "power",
        "power of all",
        "cut",
        "isolate",
        "store cut",
        "drop",
        "store down",
        "store slow",
        "answer lost",
        "sync fails",
        "writes fail",
        "reads fail",
        "stall",
        "hung disk",
        "pool full",
        "all full",
        "move",
        "snapshot",
        "snapshot deleted",
        "checkpoint",
        "grow",
        "torn superblock",
        "no rebuild",
        "disk set back",
    ];

    pub const fn kind(self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Power { .. } => "power",
            Self::PowerAll { .. } => "power of all",
            Self::Cut { .. } => "cut",
            Self::Isolate { .. } => "isolate",
            Self::StoreCut { .. } => "store cut",
            Self::Drop { .. } => "drop",
            Self::StoreDown { .. } => "store down",
            Self::StoreSlow { .. } => "store slow",
            Self::StoreForgets => "answer lost",
            Self::SyncFails { .. } => "sync fails",
            Self::WritesFail { .. } => "writes fail",
            Self::ReadsFail { .. } => "reads fail",
            Self::Stall { .. } => "stall",
            Self::Hang { .. } => "hung disk",
            Self::Full { .. } => "pool full",
            Self::FullAll { .. } => "all full",
            Self::Move { .. } => "move",
            Self::Snapshot => "snapshot",
            Self::DeleteSnapshot => "snapshot deleted",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Grow { .. } => "grow",
            Self::TornSuperblock { .. } => "torn superblock",
            Self::Swap { .. } => "disk swapped",
            Self::NoRebuild { .. } => "no rebuild",
            Self::SetBack => "store set back",
            Self::DiskSetBack { .. } => "disk set back",
        }
    }
}

/// Faults of a seed, over so many milliseconds.
pub fn generate(random: &mut Random, time: u64) -> Vec<PlannedFault> {
    let count = random.between(3, 14);
    // Most seeds are about few kinds, again and again; some about all.
    let kinds: Vec<u64> = (0..random.between(1, 8)).map(|_| random.below(32)).collect();
    let mut faults: Vec<PlannedFault> = (0..count)
        .map(|_| {
            let kind = *random.pick(&kinds).unwrap_or(&0);
            PlannedFault { at: random.between(300, time), fault: draw(random, kind) }
        })
        .collect();
    faults.sort_by_key(|planned| planned.at);
    faults
}

fn draw(random: &mut Random, kind: u64) -> Fault {
    let node = usize::try_from(random.below(NODES as u64)).unwrap_or(0);
    let b = (node + 1 + usize::try_from(random.below(2)).unwrap_or(0)) % NODES;
    // Short and long: inside and outside of every grace.
    let lasts = match random.below(3) {
        0 => random.between(1, 300),
        1 => random.between(300, 3_000),
        _ => random.between(3_000, 12_000),
    };
    let down = if random.chance(300) { 0 } else { lasts };
    match kind {
        0..=3 => Fault::Kill { node, down },
        4 | 5 => Fault::Power { node, down },
        6 => Fault::PowerAll { down },
        7 | 8 => Fault::Cut { a: node, b, lasts },
        9 => Fault::Isolate { node, lasts },
        10 => Fault::StoreCut { node, lasts },
        11 | 12 => Fault::Drop { node },
        13 => Fault::StoreDown { lasts },
        14 => Fault::StoreSlow { lasts, by: random.between(1_000, 5_000) },
        15 => Fault::StoreForgets,
        16 => Fault::SyncFails { node, lasts },
        17 => Fault::WritesFail { node, lasts },
        18 => Fault::ReadsFail { node, lasts },
        19 => Fault::Stall { node, lasts },
        20 => Fault::Full { node, lasts },
        21 if random.chance(500) => Fault::FullAll { lasts },
        24 if random.chance(500) => Fault::DeleteSnapshot,
        21 | 23 | 24 => Fault::Snapshot,
        25 => Fault::Checkpoint { node },
        26 => Fault::Grow { node },
        27 => Fault::TornSuperblock { node, down },
        28 => Fault::NoRebuild { lasts },
        31 => Fault::DiskSetBack { node, age: random.between(1, 15_000), down },
        30 => Fault::Hang { node, lasts: random.between(8_000, 40_000) },
        _ => Fault::Move { node },
    }
}

impl World {
    pub(super) fn strike(&mut self, fault: Fault) {
        if self.stage != Stage::Faults {
            return;
        }
        *self.counts.faults.entry(fault.kind()).or_default() += 1;
        self.note(|| format!("FAULT {fault:?}"));
        match fault {
            Fault::Kill { node, down } => self.kill_for(node, Crash::Process, down),
            Fault::Power { node, down } => self.kill_for(node, Crash::Power, down),
            Fault::PowerAll { down } => {
                for node in 0..NODES {
                    let more = self.random.between(0, 2_000);
                    self.kill_for(node, Crash::Power, down + more);
                }
            }
            Fault::Cut { a, b, lasts } => self.cut(a, b, lasts),
            Fault::Isolate { node, lasts } => {
                for other in (0..NODES).chain([STORE]).filter(|other| *other != node) {
                    self.cut(node, other, lasts);
                }
            }
            Fault::StoreCut { node, lasts } => self.cut(node, STORE, lasts),
            Fault::Drop { node } => self.drop_connections(node),
            Fault::StoreDown { lasts } => self.store.down_until = self.now + lasts * 1_000,
            Fault::StoreSlow { lasts, by } => {
                self.store.slow = Some((self.now + lasts * 1_000, by * 1_000));
            }
            Fault::StoreForgets => self.store.lost_answers += 1,
            Fault::Stall { node, lasts } => {
                self.nodes[node].disks[MAIN].hung_until = self.now + lasts * 1_000;
            }
            Fault::Hang { node, lasts } => {
                self.nodes[node].disks[SECOND].hung_until = self.now + lasts * 1_000;
                self.changed();
            }
            Fault::SyncFails { node, lasts }
            | Fault::WritesFail { node, lasts }
            | Fault::ReadsFail { node, lasts } => self.spoil_disk(node, lasts, fault),
            Fault::Full { node, lasts } => self.fill_for(node, lasts),
            Fault::FullAll { lasts } => {
                *self.counts.faults.entry("pool full").or_default() += 1;
                for node in 0..self.copies {
                    self.fill_for(node, lasts);
                }
            }
            Fault::Move { node } => self.control.wish = Some((node, None)),
            Fault::Snapshot => self.want_snapshot(),
            Fault::DeleteSnapshot => {
                self.delete_oldest_snapshot();
            }
            Fault::Checkpoint { node } => self.ask_pool(node, Request::Checkpoint),
            Fault::Grow { node } => self.grow(node),
            Fault::TornSuperblock { node, down } => {
                self.kill_for(node, Crash::Power, down);
                let slot = usize::try_from(self.random.below(2)).unwrap_or(0);
                self.nodes[node].disks[MAIN].disk.damage(slot * block::BLOCK + 100, 0xff);
            }
            Fault::Swap { node, down } => {
                self.kill_for(node, Crash::Power, down);
                self.swap_disk(node);
            }
            Fault::SetBack => self.set_store_back(),
            Fault::DiskSetBack { node, age, down } => self.take_image(node, age, down),
            Fault::NoRebuild { lasts } => {
                self.control.no_rebuild_until = self.now + lasts * 1_000;
                self.tell_rebuild();
                self.after(lasts * 1_000, Event::Rebuild);
            }
        }
    }

    fn set_store_back(&mut self) {
        self.store.set_back();
        self.is_set_back = true;
        self.control.wish = Some((0, Some(self.now)));
        self.note(|| "the store is set back".into());
    }

    /// A copy of the disk, as it is between two operations, is put in its place later.
    pub(super) fn take_image(&mut self, node: usize, age: u64, down: u64) {
        let disk = &self.nodes[node].disks[MAIN].disk;
        if disk.in_flight() > 0 {
            self.after(500, Event::TakeImage { node, age, down });
            return;
        }
        let mut image = Box::new(disk.clone());
        // With what is in its cache, or without.
        image.crash(if self.random.chance(500) { Crash::Process } else { Crash::Power });
        self.note(|| format!("an image of node {node} is taken"));
        self.after(age * 1_000, Event::PutImage { node, image, down });
    }

    /// Only while another replica has what this one loses: with a single one nobody could tell.
    pub(super) fn put_image(&mut self, node: usize, image: SimDisk, down: u64) {
        let is_sound = |other: usize| {
            let it = &self.nodes[other];
            let is_healthy = self.store.record.is_healthy(replica_id(other));
            other != node && is_healthy && !it.is_bad && !it.is_swapped && it.pool().is_some()
        };
        if self.stage != Stage::Faults || !(0..self.copies).any(is_sound) {
            return;
        }
        let crash = if self.random.chance(500) { Crash::Process } else { Crash::Power };
        self.kill_for(node, crash, down);
        let it = &mut self.nodes[node];
        it.disks[MAIN].disk = image;
        it.is_swapped = true;
        it.fenced = 0;
        self.note(|| format!("the disk of node {node} is set back to its image"));
    }

    fn kill_for(&mut self, node: usize, crash: Crash, down: u64) {
        self.kill(node, crash);
        let process = self.nodes[node].process;
        self.after(down * 1_000, Event::StartProcess { node, process });
    }

    fn cut(&mut self, a: usize, b: usize, lasts: u64) {
        *self.cuts.entry((a.min(b), a.max(b))).or_default() += 1;
        self.after(lasts * 1_000, Event::Heal { a, b });
    }

    fn spoil_disk(&mut self, node: usize, lasts: u64, fault: Fault) {
        let it = &mut self.nodes[node];
        it.is_bad = true;
        let disk = &mut it.disks[MAIN].disk;
        match fault {
            Fault::SyncFails { .. } => disk.fail_syncs(true),
            Fault::WritesFail { .. } => disk.fail_writes(Some(0)),
            _ => disk.fail_reads(true),
        }
        self.after(lasts * 1_000, Event::HealDisk { node });
    }

    /// Somebody repairs the disk; a pool that failed is opened anew.
    pub(super) fn heal_disk(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        let was_bad = std::mem::replace(&mut it.is_bad, false);
        let disk = &mut it.disks[MAIN].disk;
        disk.fail_syncs(false);
        disk.fail_writes(None);
        disk.fail_reads(false);
        let is_open = it.pool().is_some_and(|pool| pool.fault().is_none());
        self.note(|| format!("the disk of node {node} works again"));
        if was_bad && !is_open {
            self.kill_for(node, Crash::Process, 10);
        }
    }

    fn fill_for(&mut self, node: usize, lasts: u64) {
        self.fill(node);
        self.after(lasts * 1_000, Event::FreeSpace { node });
    }

    /// Disks that ended nothing end everything now, not when that was to be over.
    fn end_stall(&mut self, node: usize) {
        for disk in [MAIN, SECOND] {
            let it = &mut self.nodes[node];
            it.disks[disk].hung_until = 0;
            let (process, waiting) = (it.process, it.disks[disk].disk.in_flight());
            for _ in 0..waiting {
                let delay = self.random.between(20, 600);
                self.after(delay, Event::Disk { node, disk, process });
            }
        }
    }

    /// From now on nothing new goes wrong, and what is wrong is repaired.
    pub(super) fn calm(&mut self) {
        self.note(|| "faults are over".into());
        self.stage = Stage::Calm;
        self.judge_snapshots();
        self.calm_snapshots();
        self.control.no_rebuild_until = 0;
        self.tell_rebuild();
        (self.store.down_until, self.store.slow, self.store.lost_answers) = (0, None, 0);
        let cuts: Vec<_> = std::mem::take(&mut self.cuts).into_keys().collect();
        for (a, b) in cuts {
            self.heal(a, b);
        }
        for node in 0..NODES {
            self.end_stall(node);
            self.heal_disk(node);
            self.free_space(node);
            let process = self.nodes[node].process;
            self.after(0, Event::StartProcess { node, process });
        }
    }
}
