//! The host: what it asked, what it was told, and what it may therefore read.
//!
//! Versions of a block count its writes. A read may not return less than what was acknowledged, or
//! read through a later target, before it was asked for; what was flushed must be on every disk
//! that counts.

use block::Durability;
use mirror::{Command, HostFault, HostReply, HostResult};

use super::disk::Version;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub(super) blocks: Vec<Told>,
    pub(super) asked: Vec<Asked>,
    /// A disk fails: an error to the host may be right.
    pub(super) has_excuse: bool,
    /// From this target on it must hear, by a flush that fails, that unflushed writes may be gone.
    pub(super) owed: Option<usize>,
}

/// What the host knows of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Told {
    pub(super) issued: Version,
    pub(super) acked: Version,
    pub(super) flushed: Version,
    /// No read that begins now may return less.
    pub(super) floor: Version,
    /// The target that `issued` was sent to, and whether it was answered or given up.
    pub(super) by: usize,
    pub(super) is_open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) target: usize,
    pub(super) tag: u64,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Write { block: usize, version: Version },
    Read { block: usize, floor: Version },
    Flush { acked: Vec<Version> },
}

impl Host {
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            blocks: vec![Told::default(); blocks],
            asked: Vec::new(),
            has_excuse: false,
            owed: None,
        }
    }

    fn ask(&mut self, target: usize, what: What) -> u64 {
        let is_used = |tag: u64| self.asked.iter().any(|asked| asked.tag == tag);
        let tag = (0..u64::MAX).find(|tag| !is_used(*tag)).unwrap_or(0);
        self.asked.push(Asked { target, tag, what });
        self.asked.sort_by_key(|asked| asked.tag);
        tag
    }

    pub(super) fn write(&mut self, target: usize, block: usize) -> (u64, Command<Version>) {
        let told = &mut self.blocks[block];
        told.issued += 1;
        self.send(target, block)
    }

    /// The newest version, for the first time or again.
    pub(super) fn send(&mut self, target: usize, block: usize) -> (u64, Command<Version>) {
        let told = &mut self.blocks[block];
        (told.by, told.is_open) = (target, true);
        let version = told.issued;
        let tag = self.ask(target, What::Write { block, version });
        let extent = block::Extent::new(u64::try_from(block).unwrap_or(0), 1);
        (tag, Command::Write { extent, data: version, durability: Durability::Volatile })
    }

    pub(super) fn read(&mut self, target: usize, block: usize) -> (u64, Command<Version>) {
        let floor = self.blocks[block].floor;
        let tag = self.ask(target, What::Read { block, floor });
        let extent = block::Extent::new(u64::try_from(block).unwrap_or(0), 1);
        (tag, Command::Read { extent })
    }

    pub(super) fn flush(&mut self, target: usize) -> (u64, Command<Version>) {
        let acked = self.blocks.iter().map(|told| told.acked).collect();
        (self.ask(target, What::Flush { acked }), Command::Flush)
    }

    pub(super) fn is_asking(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.asked.iter().any(|asked| is_it(&asked.what))
    }

    /// What the reply breaks, if anything.
    pub(super) fn told(&mut self, target: usize, reply: &HostReply<Version>) -> Option<String> {
        let is_it = |asked: &Asked| asked.target == target && asked.tag == reply.tag;
        let Some(at) = self.asked.iter().position(is_it) else {
            return Some("a command is answered that nobody asked".into());
        };
        match (self.asked.remove(at).what, &reply.result) {
            (What::Write { block, version }, HostResult::Done) => {
                let told = &mut self.blocks[block];
                told.acked = told.acked.max(version);
                told.floor = told.floor.max(version);
                told.is_open &= version != told.issued;
                None
            }
            (What::Write { block, version }, HostResult::Failed(_)) if self.has_excuse => {
                let told = &mut self.blocks[block];
                told.is_open &= version != told.issued;
                None
            }
            (What::Read { .. }, HostResult::Failed(_)) if self.has_excuse => None,
            (What::Flush { .. }, HostResult::Failed(_))
                if self.has_excuse && self.owed.is_none() =>
            {
                None
            }
            (What::Write { .. }, _) => Some("a write fails without a reason".into()),
            (What::Read { block, floor }, HostResult::Data(found)) => {
                self.judge_read(target, block, floor, *found)
            }
            (What::Read { .. }, _) => Some("a read fails without a reason".into()),
            (What::Flush { acked }, HostResult::Done) => {
                for (told, acked) in self.blocks.iter_mut().zip(acked) {
                    told.flushed = told.flushed.max(acked);
                }
                let is_lie = self.owed.is_some_and(|since| target >= since);
                is_lie.then(|| "a flush lies: unflushed writes may be gone".into())
            }
            (What::Flush { .. }, HostResult::Failed(HostFault::WriteFault))
                if self.owed.is_some() =>
            {
                // An older target that owes it too does not speak for the newer one.
                self.owed = self.owed.filter(|since| target < *since);
                None
            }
            (What::Flush { .. }, _) => Some("a flush fails without a reason".into()),
        }
    }

    fn judge_read(
        &mut self,
        target: usize,
        block: usize,
        floor: Version,
        found: Version,
    ) -> Option<String> {
        let told = &mut self.blocks[block];
        if found < floor {
            return Some(format!("block {block} reads v{found}, v{floor} was there before"));
        }
        if found > told.issued {
            return Some(format!("block {block} reads v{found}, which nobody wrote"));
        }
        // Two reads during one write may differ; through a later target it is no longer under way.
        let is_settled = found < told.issued || !told.is_open || target > told.by;
        // A write that failed on a bad disk may be read until it is taken back.
        if is_settled && !self.has_excuse {
            told.floor = told.floor.max(found);
        }
        None
    }

    /// Its connection to this target is gone.
    pub(super) fn disconnected(&mut self, target: usize) {
        self.asked.retain(|asked| asked.target != target);
    }

    /// The record says that unflushed writes may be gone.
    pub(super) fn warned(&mut self, target: usize) {
        self.owed = Some(target);
        self.unflushed_gone();
    }

    /// Only what was flushed must be there.
    pub(super) fn unflushed_gone(&mut self) {
        for told in &mut self.blocks {
            told.acked = told.flushed;
            told.floor = told.flushed;
        }
        // What was asked before cannot promise what is gone.
        let blocks = self.blocks.clone();
        for asked in &mut self.asked {
            if let What::Flush { acked } = &mut asked.what {
                for (acked, told) in acked.iter_mut().zip(&blocks) {
                    *acked = (*acked).min(told.flushed);
                }
            }
            if let What::Read { block, floor } = &mut asked.what {
                *floor = (*floor).min(blocks[*block].floor);
            }
        }
    }
}
