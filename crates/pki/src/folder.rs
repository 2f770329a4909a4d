//! Files of certificates and keys: where they lie, and how they are read and written.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use crate::{PkiError, limits};

/// The key that signs. It stays where the authority was made, and no process ever needs it.
pub const AUTHORITY_KEY: &str = "ca.key";

/// What a process shows and goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The authority that it believes.
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Files {
    /// The three under their usual names.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            ca: folder.join("ca.crt"),
            cert: folder.join("tls.crt"),
            key: folder.join("tls.key"),
        }
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| PkiError::Unreadable { path: path.to_owned() })?;
    if found.is_empty() {
        return Err(PkiError::Empty { path: path.to_owned(), what: "certificate" });
    }
    Ok(found)
}

/// A key that anybody on the machine may read is no secret, and is refused.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, PkiError> {
    let text = secret(path)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| PkiError::Empty { path: path.to_owned(), what: "key" })
}

pub(crate) fn secret(path: &Path) -> Result<Vec<u8>, PkiError> {
    let meta = fs::metadata(path).map_err(failed(path))?;
    // A group may be meant to share it; the whole world is not.
    if meta.permissions().mode() & 0o007 != 0 {
        return Err(PkiError::Exposed { path: path.to_owned() });
    }
    read(path)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, PkiError> {
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(failed(path))?;
    file.take(limits::FILE_BYTES_MAX).read_to_end(&mut text).map_err(failed(path))?;
    Ok(text)
}

pub(crate) fn make(folder: &Path) -> Result<(), PkiError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))
}

/// Who may read a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Readers {
    Owner,
    All,
}

/// Whole or not at all: whoever reads it meanwhile finds the old one or the new one.
pub(crate) fn write(path: &Path, text: &str, readers: Readers) -> Result<(), PkiError> {
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::All => 0o644,
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = || -> io::Result<()> {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    written().map_err(failed(path))
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> PkiError {
    let path = path.to_owned();
    move |source| PkiError::File { path, source }
}
