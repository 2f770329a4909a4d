//! Runs a machine of `pool` to its end, one I/O after the other: nobody else waits here.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use block::{BLOCK, Buffer};
use pool::{
    Carries, Error, Format, FormatError, FormatStep, Fsck, FsckStep, Geometry, Import, ImportError,
    ImportStep, Imported, Io, IoError, IoId, LoadError, Out, PROBED, Pool, Reply, Report,
    RequestId,
};
use uring::{Backend, Completion, Disk, Op, Outcome, Reactor};

/// What a machine wants next.
pub(super) enum Step<D> {
    Io(IoId, Io),
    Done(D),
}

pub(super) trait Machine {
    type Done;

    fn step(&mut self) -> Option<Step<Self::Done>>;

    fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>);
}

impl Machine for Format {
    type Done = Result<Geometry, FormatError>;

    fn step(&mut self) -> Option<Step<Self::Done>> {
        Some(match self.poll()? {
            FormatStep::Io { id, io } => Step::Io(id, io),
            FormatStep::Done(result) => Step::Done(*result),
        })
    }

    fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        self.io_done(id, result);
    }
}

impl Machine for Fsck {
    type Done = Result<Report, LoadError>;

    fn step(&mut self) -> Option<Step<Self::Done>> {
        Some(match self.poll()? {
            FsckStep::Io { id, io } => Step::Io(id, io),
            FsckStep::Done(result) => Step::Done(*result),
        })
    }

    fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        self.io_done(id, result);
    }
}

impl Machine for Import {
    type Done = Result<Imported, ImportError>;

    fn step(&mut self) -> Option<Step<Self::Done>> {
        Some(match self.poll()? {
            ImportStep::Io { id, io } => Step::Io(id, io),
            ImportStep::Done(result) => Step::Done(*result),
        })
    }

    fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        self.io_done(id, result);
    }
}

/// An open pool, until it has answered one request.
pub(super) struct Asked<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) request: RequestId,
}

impl Machine for Asked<'_> {
    type Done = Result<Reply, Error>;

    fn step(&mut self) -> Option<Step<Self::Done>> {
        loop {
            match self.pool.poll()? {
                Out::Io { id, io } => return Some(Step::Io(id, io)),
                Out::Done { request, result } if request == self.request => {
                    return Some(Step::Done(result));
                }
                Out::Done { .. } => {}
            }
        }
    }

    fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        self.pool.io_done(id, result);
    }
}

pub(super) fn drive<M: Machine>(machine: &mut M, medium: &mut Medium) -> Result<M::Done> {
    loop {
        match machine.step() {
            Some(Step::Done(done)) => return Ok(done),
            Some(Step::Io(id, io)) => {
                let result = medium.run(io)?;
                machine.io_done(id, result);
            }
            None => bail!("the pool waits for nothing: this is a bug"),
        }
    }
}

/// A disk, changed or only looked at.
#[derive(Debug)]
pub(super) struct Medium {
    disk: Disk,
    reactor: Reactor,
    completions: Vec<Completion>,
    /// Where there is one: blocks that would have been written.
    instead: Option<BTreeMap<u64, Buffer>>,
}

impl Medium {
    pub(super) fn new(disk: Disk) -> Result<Self> {
        let reactor = Reactor::new(Backend::Auto)?;
        Ok(Self { disk, reactor, completions: Vec::new(), instead: None })
    }

    /// From now on what is written is kept in memory, and read from there.
    pub(super) fn unchanged(self) -> Self {
        Self { instead: Some(BTreeMap::new()), ..self }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.disk.size() / BLOCK as u64
    }

    pub(super) fn probe(&mut self) -> Result<Option<Carries>> {
        let whole = self.blocks() * BLOCK as u64;
        let len = usize::try_from(whole).unwrap_or(usize::MAX).min(PROBED);
        if len == 0 {
            return Ok(None);
        }
        let head = self.read(0, len)?;
        let tail = self.read(whole - len as u64, len)?;
        Ok(pool::probe(head.bytes(), tail.bytes()))
    }

    fn read(&mut self, offset: u64, len: usize) -> Result<Buffer> {
        match self.run(Io::Read { offset, len })? {
            Ok(Some(data)) => Ok(data),
            Ok(None) => bail!("a read brought nothing"),
            Err(error) => Err(error.into()),
        }
    }

    fn run(&mut self, io: Io) -> Result<Result<Option<Buffer>, IoError>> {
        let disk = self.disk.clone();
        let op = match (io, &mut self.instead) {
            (Io::Read { offset, len }, _) => Op::Read { disk, offset, buffer: Buffer::zeroed(len) },
            (Io::Write { offset, data, .. }, Some(instead)) => {
                for (index, at) in (0..data.len()).step_by(BLOCK).enumerate() {
                    let block = data.slice(at..at + BLOCK);
                    instead.insert(offset + (index * BLOCK) as u64, block);
                }
                return Ok(Ok(None));
            }
            (Io::Sync | Io::Discard { .. }, Some(_)) => return Ok(Ok(None)),
            (Io::Write { offset, data, durability }, None) => {
                Op::Write { disk, offset, data: data.into(), durability }
            }
            (Io::Sync, None) => Op::Sync { disk },
            (Io::Discard { offset, len }, None) => Op::Discard { disk, offset, len },
        };
        let offset = if let Op::Read { offset, .. } = op { offset } else { 0 };
        self.reactor.submit(0, op);
        while self.completions.is_empty() {
            self.reactor.wait(&mut self.completions, None)?;
        }
        let outcome = self.completions.swap_remove(0).outcome;
        Ok(match outcome {
            Outcome::Read { mut buffer, result } => {
                self.overlay(offset, &mut buffer);
                result.map(|()| Some(buffer)).map_err(|error| code(&error))
            }
            Outcome::Written { result, .. }
            | Outcome::Synced(result)
            | Outcome::Discarded(result) => result.map(|()| None).map_err(|error| code(&error)),
            _ => bail!("the disk answered something else"),
        })
    }

    /// Puts what would have been written over what was read.
    fn overlay(&self, offset: u64, buffer: &mut Buffer) {
        let Some(instead) = &self.instead else { return };
        let end = offset + buffer.len() as u64;
        let Some(bytes) = buffer.get_mut() else { return };
        for (at, block) in instead.range(offset..end) {
            let from = usize::try_from(at - offset).unwrap_or(usize::MAX);
            if let Some(to) = bytes.get_mut(from..from + BLOCK) {
                to.copy_from_slice(block.bytes());
            }
        }
    }
}

fn code(error: &uring::IoError) -> IoError {
    IoError { code: error.code() }
}
