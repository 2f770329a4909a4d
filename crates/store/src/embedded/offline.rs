//! What people do with a store file that no process has open.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use ports::StoreError;

use super::{
    codec::Dumped,
    file::{FILE_NAME, aside_of, exists, sync_folder_of},
    load::{Loading, load},
    lock::Lock,
    report::{Fault, Report, unreachable},
};
use crate::memory::Bounds;

/// Reads and verifies all of a store (its folder or its file) and changes nothing.
pub fn check(store: &Path) -> Result<Report, StoreError> {
    load(&file_of(store), Bounds::default()).map(|loaded| loaded.report)
}

/// What a store (its folder or its file) holds, line by line. Of a damaged file all that stands
/// before the damage, and then the damage.
pub fn dump(store: &Path) -> Result<Dump, StoreError> {
    let file = file_of(store);
    let loading = Loading::start(&file).map_err(|fault| fault.told(&file))?;
    Ok(Dump { file, loading: Some(loading), ready: VecDeque::new() })
}

/// Makes `folder`, which must not hold a store yet, a store out of a backup.
pub fn restore(backup: &Path, folder: &Path) -> Result<Report, StoreError> {
    let report = load(backup, Bounds::default())?.report;
    let _lock = Lock::take(folder)?;
    let file = folder.join(FILE_NAME);
    if exists(&file)? {
        let reason = format!("{} exists already: move it away first", file.display());
        return Err(StoreError::Invalid { reason });
    }
    copy(backup, &file).map_err(|error| unreachable("restore", &file, &error))?;
    Ok(report)
}

/// See `dump`.
#[derive(Debug)]
pub struct Dump {
    file: PathBuf,
    /// `None` once the end or the damage was told.
    loading: Option<Loading>,
    ready: VecDeque<Dumped>,
}

impl Iterator for Dump {
    type Item = Result<Dumped, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let loading = self.loading.as_mut()?;
            match loading.next() {
                Ok(Some(frame)) => self.ready.extend(frame.dumped()),
                Ok(None) => self.loading = None,
                Err(fault) => {
                    // A write that was never acknowledged is no damage, and no content either.
                    let fault = match fault {
                        Fault::Torn(torn) => loading.tail(torn).err(),
                        fault => Some(fault),
                    };
                    self.loading = None;
                    return fault.map(|fault| Err(fault.told(&self.file)));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

fn file_of(store: &Path) -> PathBuf {
    if store.is_dir() { store.join(FILE_NAME) } else { store.to_owned() }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let aside = aside_of(to);
    fs::copy(from, &aside)?;
    File::open(&aside)?.sync_all()?;
    fs::rename(&aside, to)?;
    sync_folder_of(to)
}
