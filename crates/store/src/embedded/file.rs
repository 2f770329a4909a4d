//! The store file as it is written: founded, appended to, rewritten.
//!
//! ```text
//!   append ──▶ sync ──▶ acknowledged        take_back: after an append that failed
//!   write_aside ──▶ put_in_place            the old file counts until the new one has its name
//! ```

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use ports::StoreError;

use super::{
    codec::{BaseFrame, Frame},
    format::{FRAMES_START, Header, Mark, seal_frame},
    load::load,
    report::{Report, unreachable},
};
use crate::memory::{
    Bounds, Core,
    record::{Base, Record},
};

pub(super) const FILE_NAME: &str = "store";

/// An open store file; everything up to `mark.length` is synced.
#[derive(Debug)]
pub(super) struct StoreFile {
    file: File,
    path: PathBuf,
    generation: u64,
    mark: Mark,
}

impl StoreFile {
    /// Opens the folder's file and mends its tail, or founds it where there is none.
    pub(super) fn open(folder: &Path, bounds: Bounds) -> Result<(Self, Core, Report), StoreError> {
        let path = folder.join(FILE_NAME);
        remove_unfinished(&path)?;
        if !exists(&path)? {
            write_aside(&path, 1, &Core::new(bounds))
                .and_then(Aside::put_in_place)
                .map_err(|error| unreachable("found a store in", folder, &error))?;
        }
        let loaded = load(&path, bounds)?;
        let mended = File::options().read(true).write(true).open(&path).and_then(|file| {
            file.set_len(loaded.mark.length)?;
            let mut opened =
                Self { file, path: path.clone(), generation: loaded.generation, mark: loaded.mark };
            // What was read may still be only in the page cache of a process that was killed.
            opened.file.sync_data()?;
            opened.set_mark(opened.mark.length, opened.mark.chain)?;
            opened.set_mark(opened.mark.length, opened.mark.chain)?;
            opened.file.sync_data()?;
            Ok(opened)
        });
        let opened = mended.map_err(|error| unreachable("write", &path, &error))?;
        Ok((opened, loaded.core, loaded.report))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length(&self) -> u64 {
        self.mark.length
    }

    /// Writes records behind the others. They count only after `sync`.
    pub(super) fn append(&mut self, records: &[Record]) -> io::Result<Appended> {
        let mut chain = self.mark.chain;
        let mut bytes = Vec::new();
        for record in records {
            // A record is cheap to clone: its entries are shared.
            let frame = Frame::Record(record.clone());
            seal_frame(&mut bytes, &mut chain, |out| frame.encode(out));
        }
        self.file.write_all_at(&bytes, self.mark.length)?;
        Ok(Appended { length: self.mark.length + bytes.len() as u64, chain })
    }

    /// Takes back what `append` may have written in part.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.mark.length)
    }

    /// From here on the appended records survive anything that the disk survives.
    pub(super) fn sync(&mut self, appended: Appended) -> io::Result<()> {
        self.file.sync_data()?;
        self.set_mark(appended.length, appended.chain)
    }

    /// Puts the last mark in both places and makes it durable: nothing follows that would do it.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.set_mark(self.mark.length, self.mark.chain)?;
        self.file.sync_data()
    }

    /// Begins a rewrite that holds only what the machine still knows.
    pub(super) fn rewrite(&self, core: &Core) -> io::Result<Aside> {
        write_aside(&self.path, self.generation + 1, core)
    }

    /// Goes on in the rewritten file. After an error it is unknown which file has the name, so
    /// nothing may be written any more.
    pub(super) fn switch_to(&mut self, aside: Aside) -> io::Result<()> {
        let mark = aside.mark;
        let file = aside.put_in_place()?;
        *self = Self { file, path: self.path.clone(), generation: self.generation + 1, mark };
        Ok(())
    }

    fn set_mark(&mut self, length: u64, chain: u32) -> io::Result<()> {
        self.mark = Mark { sequence: self.mark.sequence + 1, length, chain };
        self.file.write_all_at(&self.mark.encode(), self.mark.offset())
    }
}

/// Records that are written but not synced.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Appended {
    length: u64,
    chain: u32,
}

/// A whole synced file that does not have its name yet.
#[derive(Debug)]
#[must_use]
pub(super) struct Aside {
    file: File,
    at: PathBuf,
    destination: PathBuf,
    mark: Mark,
}

impl Aside {
    /// Gives the file its name, over whatever had it.
    pub(super) fn put_in_place(self) -> io::Result<File> {
        fs::rename(&self.at, &self.destination)?;
        sync_folder_of(&self.destination)?;
        Ok(self.file)
    }
}

/// Writes all that the machine knows beside `destination`.
pub(super) fn write_aside(destination: &Path, generation: u64, core: &Core) -> io::Result<Aside> {
    let at = aside_of(destination);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&at)?;
    let (header, mut chain) = Header { generation }.encode();
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    out.write_all(&header)?;
    out.seek(io::SeekFrom::Start(FRAMES_START))?;
    let mut length = FRAMES_START;
    let mut bytes = Vec::new();
    for frame in frames_of(core) {
        bytes.clear();
        seal_frame(&mut bytes, &mut chain, |out| frame.encode(out));
        out.write_all(&bytes)?;
        length += bytes.len() as u64;
    }
    out.flush()?;
    drop(out);
    let marks = [1, 2].map(|sequence| Mark { sequence, length, chain });
    for mark in marks {
        file.write_all_at(&mark.encode(), mark.offset())?;
    }
    file.sync_all()?;
    Ok(Aside { file, at, destination: destination.to_owned(), mark: marks[1] })
}

/// A new name in a folder is durable only when the folder is synced.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

pub(super) fn aside_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

fn frames_of(core: &Core) -> impl Iterator<Item = Frame> {
    let Base { revision, entries, leases, last_lease } = core.base();
    let base = BaseFrame {
        revision,
        entries: entries.len() as u64,
        leases: leases.len() as u64,
        last_lease,
    };
    std::iter::once(Frame::Base(base))
        .chain(entries.into_iter().map(Frame::Entry))
        .chain(leases.into_iter().map(Frame::Lease))
        .chain(core.history().map(Frame::Record))
}

fn remove_unfinished(path: &Path) -> Result<(), StoreError> {
    let new = aside_of(path);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(unreachable("remove", &new, &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(|error| unreachable("look for", path, &error))
}
