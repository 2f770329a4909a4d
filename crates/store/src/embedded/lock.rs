//! One process at a time: the lock on a store's folder.

use std::{
    fs::{self, File, TryLockError},
    io::{Read, Write},
    path::Path,
    process,
};

use ports::StoreError;

use super::report::unreachable;

/// Held until dropped, also by a process that is killed.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(folder: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(|error| unreachable("create", folder, &error))?;
        let path = folder.join("lock");
        let opened =
            File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(|error| unreachable("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(unreachable("lock", &path, &error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(format!("{}\n", process::id()).as_bytes()));
        written.map_err(|error| unreachable("write", &path, &error))?;
        Ok(Self { _file: file })
    }
}

fn in_use(folder: &Path, file: &mut File) -> StoreError {
    let mut pid = String::new();
    // The pid is only for the message: without it the message is poorer, not wrong.
    let _ = file.read_to_string(&mut pid);
    let holder = match pid.trim() {
        "" => "another process".to_owned(),
        pid => format!("the process with pid {pid}"),
    };
    StoreError::Unavailable { reason: format!("{} is in use by {holder}", folder.display()) }
}
