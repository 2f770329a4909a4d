//! The store file as it is read: every byte, before anything of it is believed.
//!
//! ```text
//!   frame fails its checksum ──┬─ before the mark ──▶ damaged: it was acknowledged once
//!                              └─ behind the mark ──▶ cut off: it never was
//! ```

use core::time::Duration;
use std::{fs::File, io::BufReader, path::Path};

use ports::StoreError;

use super::{
    codec::{BaseFrame, Frame},
    format::{FRAMES_START, Frames, Front, Mark},
    report::{Broken, Fault, Repair, Report},
};
use crate::memory::{Bounds, Core, record::Base};

/// What is in a file.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) core: Core,
    pub(super) report: Report,
    pub(super) generation: u64,
    /// The end of what counts, whatever the file's own mark says.
    pub(super) mark: Mark,
}

/// Reads and verifies a whole file, without changing it.
pub(super) fn load(path: &Path, bounds: Bounds) -> Result<Loaded, StoreError> {
    Loading::start(path)
        .and_then(|loading| loading.finish(path, bounds))
        .map_err(|fault| fault.told(path))
}

/// The frames of a file, checked against its mark.
#[derive(Debug)]
pub(super) struct Loading {
    frames: Frames<BufReader<File>>,
    front: Front,
    records: u64,
}

impl Loading {
    pub(super) fn start(path: &Path) -> Result<Self, Fault> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut input = BufReader::with_capacity(1 << 20, file);
        let front = Front::read(&mut input)?;
        let frames = Frames { input, offset: FRAMES_START, length, chain: front.chain };
        Ok(Self { frames, front, records: 0 })
    }

    /// The next frame, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Fault> {
        let offset = self.frames.offset;
        let Some(body) = self.frames.next()? else {
            return self.end().map(|()| None);
        };
        self.records += 1;
        let mark = self.front.mark;
        if offset < mark.length
            && (self.frames.offset > mark.length
                || (self.frames.offset == mark.length && self.frames.chain != mark.chain))
        {
            return Err(broken(offset, "the records do not fit the mark"));
        }
        match Frame::decode(&body) {
            Some(frame) => Ok(Some(frame)),
            None => Err(broken(offset, "a record does not decode")),
        }
    }

    /// Only what lies behind the mark was never acknowledged.
    pub(super) fn tail(&self, torn: Broken) -> Result<Repair, Fault> {
        if torn.offset < self.front.mark.length {
            return Err(Fault::Broken(torn));
        }
        let Broken { offset, why } = torn;
        Ok(Repair::CutTail { offset, bytes: self.frames.length - offset, why })
    }

    fn finish(mut self, path: &Path, bounds: Bounds) -> Result<Loaded, Fault> {
        let mut core = self.base(bounds)?;
        let tail = self.records(&mut core)?;
        let renewed = (!self.front.is_mark_doubled).then_some(Repair::RenewedMark);
        let report = Report {
            file: path.to_owned(),
            bytes: self.frames.length,
            records: self.records,
            entries: core.len(),
            revision: core.revision(),
            oldest: core.oldest(),
            repairs: tail.into_iter().chain(renewed).collect(),
        };
        let (length, chain) = (self.frames.offset, self.frames.chain);
        let mark = Mark { sequence: self.front.mark.sequence, length, chain };
        Ok(Loaded { core, report, generation: self.front.header.generation, mark })
    }

    /// The entries that the records start from. They were synced before the file got its name, so
    /// that nothing of them can be an unfinished write.
    fn base(&mut self, bounds: Bounds) -> Result<Core, Fault> {
        let Some(Frame::Base(head)) = self.next()? else {
            return Err(broken(FRAMES_START, "the entries have no beginning"));
        };
        let BaseFrame { revision, last_lease, .. } = head;
        let mut base = Base { revision, last_lease, entries: vec![], leases: vec![] };
        for _ in 0..head.entries {
            match self.next()? {
                Some(Frame::Entry(entry)) => base.entries.push(entry),
                _ => return Err(broken(self.frames.offset, "entries are missing")),
            }
        }
        for _ in 0..head.leases {
            match self.next()? {
                Some(Frame::Lease(kept)) => base.leases.push(kept),
                _ => return Err(broken(self.frames.offset, "leases are missing")),
            }
        }
        Ok(Core::from_base(base, bounds))
    }

    fn records(&mut self, core: &mut Core) -> Result<Option<Repair>, Fault> {
        loop {
            let offset = self.frames.offset;
            match self.next() {
                Ok(None) => return Ok(None),
                Ok(Some(Frame::Record(record))) if core.follows(&record) => {
                    core.apply(Duration::ZERO, &record);
                }
                Ok(Some(_)) => {
                    return Err(broken(offset, "a record does not follow the one before"));
                }
                Err(Fault::Torn(torn)) => return self.tail(torn).map(Some),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// A file that ends in order may still have lost its end.
    fn end(&self) -> Result<(), Fault> {
        let offset = self.frames.offset;
        let synced = self.front.mark.length;
        if offset < synced {
            let why = format!("the file is cut short: {synced} bytes were synced");
            return Err(Fault::Broken(Broken { offset, why }));
        }
        Ok(())
    }
}

fn broken(offset: u64, why: &str) -> Fault {
    Fault::Broken(Broken::at(offset, why))
}
