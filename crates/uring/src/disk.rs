//! A file or block device that holds a pool: opened for this process alone, past the page cache.

mod discard;

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{self, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom},
    io::Errno,
};

pub(crate) use discard::{discard, hole};

/// How often a disk is tried that another has.
const BUSY_LOOK: Duration = Duration::from_millis(20);

/// An open file or device. A clone is another handle onto it; it closes, and its lock goes, with
/// the last one, those of operations in flight included.
#[derive(Clone, Debug)]
pub struct Disk {
    opened: Arc<Opened>,
}

#[derive(Debug)]
struct Opened {
    fd: OwnedFd,
    path: PathBuf,
    kind: DiskKind,
    size: AtomicU64,
    compromises: Vec<Compromise>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    File,
    Device,
}

/// What could not be had. It works all the same; a person may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Compromise {
    #[error("the file system refuses direct I/O: data goes through the page cache")]
    Cached,
    #[error("the file system cannot reserve space: writes may fail when it is full")]
    Sparse,
}

#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("{path} is in use by another process")]
    Busy { path: PathBuf },
    #[error("{path} exists already")]
    Exists { path: PathBuf },
    #[error("{path} does not exist")]
    Missing { path: PathBuf },
    #[error("{path} is neither a file nor a block device")]
    NotADisk { path: PathBuf },
    #[error("no space for {path}")]
    NoSpace { path: PathBuf },
    #[error("cannot open {path}")]
    Os { path: PathBuf, source: io::Error },
}

impl Disk {
    /// A file or device that is there, for reading and writing, and for nobody else meanwhile.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let told = |errno| told(path, errno);
        let metadata = fs::stat(path).map_err(told)?;
        let (kind, exclusive) = match FileType::from_raw_mode(metadata.st_mode) {
            FileType::RegularFile => (DiskKind::File, OFlags::empty()),
            // The kernel refuses a device that is mounted or that another opened like this.
            FileType::BlockDevice => (DiskKind::Device, OFlags::EXCL),
            _ => return Err(DiskError::NotADisk { path: path.into() }),
        };
        let (fd, compromises) = open_direct(path, exclusive).map_err(told)?;
        // Devices too: `O_EXCL` keeps out mounts, the lock keeps out those who forget it.
        fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).map_err(told)?;
        let size = fs::seek(&fd, SeekFrom::End(0)).map_err(told)?;
        Ok(Self::new(fd, path, kind, size, compromises))
    }

    /// The same, of one that another may be about to let go: a process that was killed is gone a
    /// moment before its files are. Blocks its thread meanwhile.
    pub fn open_within(path: &Path, patience: Duration) -> Result<Self, DiskError> {
        let end = Instant::now() + patience;
        loop {
            match Self::open(path) {
                Err(DiskError::Busy { .. }) if Instant::now() < end => thread::sleep(BUSY_LOOK),
                opened => return opened,
            }
        }
    }

    /// A new file of `size` bytes, its space reserved, durable as an empty one when this returns.
    pub fn create(path: &Path, size: u64) -> Result<Self, DiskError> {
        let told = |errno| told(path, errno);
        let (fd, mut compromises) =
            open_direct(path, OFlags::CREATE | OFlags::EXCL).map_err(told)?;
        let prepared = fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| reserve(&fd, size))
            .and_then(|reserved| {
                fs::fsync(&fd)?;
                sync_folder(path)?;
                Ok(reserved)
            });
        match prepared {
            Ok(reserved) => compromises.extend(reserved),
            Err(errno) => {
                // A file of ours that nobody has seen; if it stays, the next create says so.
                let _ = fs::unlink(path);
                return Err(told(errno));
            }
        }
        Ok(Self::new(fd, path, DiskKind::File, size, compromises))
    }

    fn new(fd: OwnedFd, path: &Path, kind: DiskKind, size: u64, c: Vec<Compromise>) -> Self {
        let (path, size) = (path.to_owned(), AtomicU64::new(size));
        Self { opened: Arc::new(Opened { fd, path, kind, size, compromises: c }) }
    }

    /// Bytes, as of opening or of the last look.
    pub fn size(&self) -> u64 {
        self.opened.size.load(Ordering::Relaxed)
    }

    /// Bytes now: a device or file may have grown under us.
    pub fn look_at_size(&self) -> Result<u64, DiskError> {
        let told = |errno| told(self.path(), errno);
        let size = fs::seek(self, SeekFrom::End(0)).map_err(told)?;
        self.opened.size.store(size, Ordering::Relaxed);
        Ok(size)
    }

    /// Makes a file larger, durably, its space reserved. Never smaller.
    pub fn grow(&self, size: u64) -> Result<(), DiskError> {
        let told = |errno| told(self.path(), errno);
        if self.kind() == DiskKind::Device || size <= self.size() {
            return Err(told(Errno::INVAL));
        }
        reserve(&self.opened.fd, size).and_then(|_| fs::fsync(self)).map_err(told)?;
        self.opened.size.store(size, Ordering::Relaxed);
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    pub fn kind(&self) -> DiskKind {
        self.opened.kind
    }

    pub fn compromises(&self) -> &[Compromise] {
        &self.opened.compromises
    }
}

impl AsFd for Disk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.fd.as_fd()
    }
}

fn open_direct(path: &Path, extra: OFlags) -> Result<(OwnedFd, Vec<Compromise>), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | extra;
    let mode = Mode::RUSR | Mode::WUSR;
    match fs::open(path, flags | OFlags::DIRECT, mode) {
        Ok(fd) => Ok((fd, Vec::new())),
        Err(Errno::INVAL) => {
            // The kernel finds that it cannot be had directly only after it has created the file,
            // so that one is ours and must not be in the way now.
            let is_new = extra.contains(OFlags::CREATE);
            let flags = if is_new { flags.difference(OFlags::EXCL) } else { flags };
            Ok((fs::open(path, flags, mode)?, vec![Compromise::Cached]))
        }
        Err(errno) => Err(errno),
    }
}

fn reserve(fd: &OwnedFd, size: u64) -> Result<Option<Compromise>, Errno> {
    match fs::fallocate(fd, FallocateFlags::empty(), 0, size) {
        Err(Errno::OPNOTSUPP) => {
            fs::ftruncate(fd, size)?;
            Ok(Some(Compromise::Sparse))
        }
        other => other.map(|()| None),
    }
}

/// Makes the entry of a new file durable in its folder.
fn sync_folder(path: &Path) -> Result<(), Errno> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = File::open(parent.unwrap_or(Path::new(".")))
        .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
    fs::fsync(&folder)
}

fn told(path: &Path, errno: Errno) -> DiskError {
    let path = path.to_owned();
    match errno {
        Errno::BUSY | Errno::AGAIN | Errno::TXTBSY => DiskError::Busy { path },
        Errno::EXIST => DiskError::Exists { path },
        Errno::NOENT => DiskError::Missing { path },
        Errno::NOSPC | Errno::DQUOT => DiskError::NoSpace { path },
        other => DiskError::Os { path, source: other.into() },
    }
}
