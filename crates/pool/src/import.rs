//! Opening a pool: what its disk says, checked, and written back as a checkpoint before the first
//! request, so that the journal begins anew.

use alloc::{boxed::Box, vec::Vec};

use block::Buffer;

use crate::{
    Boot, Fault, Finding, Flaws, Io, IoError, IoId, LoadError, Out, Pool,
    clusters::Clusters,
    journal::Owner,
    load::{Load, Loaded},
    log::Log,
    pool::Start,
    superblock::Superblock,
};

#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
    /// Blocks of the device.
    pub blocks: u64,
    /// This boot of the machine, and this attachment of the device to it: while it is the same, a
    /// write that completed is there, synced or not.
    pub boot: Boot,
    /// Freed space is given back to the device.
    pub discard: bool,
    pub flaws: Flaws,
}

/// How the pool was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Exported.
    Clean,
    /// Only the process died: every write that was answered is there.
    Process,
    /// Power was lost, or may have been: what was not flushed may be gone.
    Power,
}

#[derive(Debug)]
pub struct Imported {
    pub pool: Pool,
    pub stop: Stop,
    /// Batches of the journal that were replayed.
    pub replayed: u64,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the pool could not be written: {0}")]
    Write(#[from] Fault),
}

#[derive(Debug)]
pub enum ImportStep {
    Io { id: IoId, io: Io },
    Done(Box<Result<Imported, ImportError>>),
}

/// A pool on its way to be open.
#[derive(Debug)]
pub struct Import {
    options: ImportOptions,
    state: State,
}

#[derive(Debug)]
enum State {
    Loading(Box<Load>),
    /// The pool writes its first checkpoint.
    Writing(Box<Imported>),
    Over,
}

impl Import {
    pub fn new(options: ImportOptions) -> Self {
        let load = Box::new(Load::new(options.blocks, options.flaws));
        Self { options, state: State::Loading(load) }
    }

    /// What is to be done next. `Done` comes once and last.
    pub fn poll(&mut self) -> Option<ImportStep> {
        match &mut self.state {
            State::Loading(load) => {
                if let Some((id, io)) = load.poll() {
                    return Some(ImportStep::Io { id, io });
                }
                match load.take_outcome()? {
                    Ok(loaded) => self.open(loaded),
                    Err(error) => return Some(self.over(Err(error.into()))),
                }
                self.poll()
            }
            State::Writing(imported) => match imported.pool.poll() {
                Some(Out::Io { id, io }) => Some(ImportStep::Io { id, io }),
                Some(Out::Done { .. }) => self.poll(),
                None => self.opened(),
            },
            State::Over => None,
        }
    }

    pub fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        match &mut self.state {
            State::Loading(load) => load.io_done(id, result),
            State::Writing(imported) => imported.pool.io_done(id, result),
            State::Over => {}
        }
    }

    /// I/Os done and known of while it reads; the second number still grows.
    pub fn progress(&self) -> (u64, u64) {
        match &self.state {
            State::Loading(load) => load.progress(),
            State::Writing(_) | State::Over => (1, 1),
        }
    }

    fn open(&mut self, loaded: Loaded) {
        let before = &loaded.superblock;
        let stop = match (before.is_clean, before.boot == self.options.boot) {
            (true, _) => Stop::Clean,
            (false, true) => Stop::Process,
            (false, false) => Stop::Power,
        };
        let (replayed, findings) = (loaded.batches, loaded.findings.clone());
        let mut pool = build(loaded, &self.options);
        pool.begin_checkpoint();
        self.state = State::Writing(Box::new(Imported { pool, stop, replayed, findings }));
    }

    fn opened(&mut self) -> Option<ImportStep> {
        let State::Writing(imported) = &mut self.state else { return None };
        if let Some(fault) = imported.pool.fault() {
            return Some(self.over(Err(fault.into())));
        }
        if imported.pool.is_checkpointing() {
            return None;
        }
        let State::Writing(imported) = core::mem::replace(&mut self.state, State::Over) else {
            return None;
        };
        Some(ImportStep::Done(Box::new(Ok(*imported))))
    }

    fn over(&mut self, result: Result<Imported, ImportError>) -> ImportStep {
        self.state = State::Over;
        ImportStep::Done(Box::new(result))
    }
}

fn build(loaded: Loaded, options: &ImportOptions) -> Pool {
    let Loaded { superblock, catalog, entries, pages, dirty, next, .. } = loaded;
    let superblock = Superblock {
        incarnation: superblock.incarnation + 1,
        is_clean: false,
        boot: options.boot,
        ..superblock
    };
    let owner = Owner { pool: superblock.pool, incarnation: superblock.incarnation };
    let log = Log::new(owner, superblock.geometry.journal, next);
    let is_owner = |layer| catalog.layers.contains_key(&layer);
    let mut clusters = Clusters::new(entries, pages, is_owner, options.discard, options.flaws);
    clusters.dirty = dirty;
    Pool::new(Start { superblock, catalog, clusters, log, flaws: options.flaws })
}
