//! Making a pool on a device, or taking one away.

use alloc::{boxed::Box, string::String, vec::Vec};

use block::{BLOCK, Buffer, Durability};
use model::PoolId;

use crate::{
    Boot, Io, IoError, IoId,
    catalog::{self, Catalog},
    geometry::{Geometry, Sizes},
    probe::{self, Carries, PROBED},
    superblock::{CatalogAt, NAME, Superblock},
    window::Window,
};

#[derive(Clone, Debug)]
pub struct FormatOptions {
    pub pool: PoolId,
    pub name: String,
    /// Blocks of the device.
    pub blocks: u64,
    pub sizes: Sizes,
    /// Overwrite what the device carries: the caller was told what, and asked for it by name.
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("a device of {blocks} blocks is too small for a pool")]
    TooSmall { blocks: u64 },
    #[error("a name has at most 128 bytes")]
    Name,
    #[error("the device carries {0}")]
    Carries(Carries),
    #[error(transparent)]
    Io(#[from] IoError),
}

#[derive(Debug)]
pub enum FormatStep {
    Io { id: IoId, io: Io },
    Done(Box<Result<Geometry, FormatError>>),
}

/// A pool in the making.
#[derive(Debug)]
pub struct Format {
    options: FormatOptions,
    window: Window,
    phase: Phase,
    head: Vec<u8>,
    tail: Vec<u8>,
    result: Option<Result<Geometry, FormatError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Probe,
    Blank,
    BlankSynced,
    Catalog,
    CatalogSynced,
    Superblocks,
    SuperblocksSynced,
    Over,
}

const HEAD: u64 = 0;
const TAIL: u64 = 1;
const OTHER: u64 = 2;

impl Format {
    pub fn new(options: FormatOptions) -> Self {
        let mut window = Window::default();
        let len = end_len(options.blocks);
        let last = options.blocks * BLOCK as u64 - len as u64;
        if len > 0 {
            window.push(HEAD, Io::Read { offset: 0, len });
            window.push(TAIL, Io::Read { offset: last, len });
        }
        let small = FormatError::TooSmall { blocks: options.blocks };
        let fits = Geometry::new(options.blocks, &options.sizes).ok_or(small);
        let result = if options.name.len() > NAME { Err(FormatError::Name) } else { fits };
        let is_over = result.is_err();
        Self {
            options,
            window: if is_over { Window::default() } else { window },
            phase: if is_over { Phase::Over } else { Phase::Probe },
            head: Vec::new(),
            tail: Vec::new(),
            result: is_over.then_some(result),
        }
    }

    /// What is to be done next. `Done` comes once and last.
    pub fn poll(&mut self) -> Option<FormatStep> {
        if let Some((id, io)) = self.window.poll() {
            return Some(FormatStep::Io { id, io });
        }
        self.result.take().map(|result| FormatStep::Done(Box::new(result)))
    }

    pub fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        let Some(tag) = self.window.done(id) else { return };
        let done = result.and_then(|data| match (self.phase, data) {
            (Phase::Probe, None) => Err(IoError { code: 5 }),
            (Phase::Probe, Some(data)) => {
                let end = if tag == HEAD { &mut self.head } else { &mut self.tail };
                *end = data.bytes().into();
                Ok(())
            }
            _ => Ok(()),
        });
        let is_last = self.window.is_empty();
        let next =
            done.map_err(FormatError::Io).and_then(|()| if is_last { self.next() } else { Ok(()) });
        if let Err(error) = next {
            self.window = Window::default();
            self.phase = Phase::Over;
            self.result = Some(Err(error));
        }
    }

    fn next(&mut self) -> Result<(), FormatError> {
        let small = FormatError::TooSmall { blocks: self.options.blocks };
        let geometry = Geometry::new(self.options.blocks, &self.options.sizes).ok_or(small)?;
        self.phase = match self.phase {
            Phase::Probe => {
                let carries = probe::probe(&self.head, &self.tail);
                if let Some(carries) = carries.filter(|_| !self.options.force) {
                    return Err(FormatError::Carries(carries));
                }
                self.blank();
                Phase::Blank
            }
            Phase::Blank => self.sync(Phase::BlankSynced),
            Phase::BlankSynced => {
                let data = Buffer::copy_of(&catalog::put_area(self.options.pool, 0, &empty()));
                self.write(geometry.catalogs[0].start, data);
                Phase::Catalog
            }
            Phase::Catalog => self.sync(Phase::CatalogSynced),
            Phase::CatalogSynced => {
                let data = self.superblock(geometry).encode();
                for place in Geometry::superblocks(self.options.blocks) {
                    self.write(place, data.clone());
                }
                Phase::Superblocks
            }
            Phase::Superblocks => self.sync(Phase::SuperblocksSynced),
            Phase::SuperblocksSynced | Phase::Over => {
                self.result = Some(Ok(geometry));
                Phase::Over
            }
        };
        Ok(())
    }

    /// Signs of what was there before would be found by others.
    fn blank(&mut self) {
        let len = end_len(self.options.blocks);
        let data = Buffer::zeroed(len);
        let last = self.options.blocks - (len / BLOCK) as u64;
        self.write(last, data.clone());
        self.write(0, data);
    }

    fn sync(&mut self, phase: Phase) -> Phase {
        self.window.push(OTHER, Io::Sync);
        phase
    }

    fn write(&mut self, block: u64, data: Buffer) {
        let io = Io::Write { offset: block * BLOCK as u64, data, durability: Durability::Volatile };
        self.window.push(OTHER, io);
    }

    fn superblock(&self, geometry: Geometry) -> Superblock {
        let bytes = u64::try_from(empty().len()).expect("a small number");
        Superblock {
            pool: self.options.pool,
            name: self.options.name.clone(),
            sequence: 1,
            incarnation: 0,
            geometry,
            tail: 1,
            catalog: CatalogAt { area: 0, lsn: 0, bytes },
            table_written: 0,
            is_clean: true,
            boot: Boot(0),
        }
    }
}

fn empty() -> Vec<u8> {
    Catalog { next_layer: 1, ..Catalog::default() }.encode(&[])
}

/// How much of each end is looked at and blanked.
fn end_len(blocks: u64) -> usize {
    let most = PROBED / BLOCK;
    usize::try_from(blocks).map_or(most, |blocks| blocks.min(most)) * BLOCK
}

/// What takes a pool away: its superblocks are blank, durably, when all of these are done in
/// order. Its data cannot be found without them.
pub fn erase(blocks: u64) -> Vec<Io> {
    let write = |block: u64| Io::Write {
        offset: block * BLOCK as u64,
        data: Buffer::zeroed(BLOCK),
        durability: Durability::Volatile,
    };
    let mut ios: Vec<Io> = Geometry::superblocks(blocks).into_iter().map(write).collect();
    ios.push(Io::Sync);
    ios
}
