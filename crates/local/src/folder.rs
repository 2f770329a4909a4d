//! The folder of a cluster: one process runs it at a time, and only such a folder is ever wiped.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use model::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::{Member, Ports};

const MARK: &str = "cluster.json";
const LOCK: &str = "lock";
/// Of the host's folder, as `holdfast host` has it: the names of sockets are short.
const HOST_NAME_MAX: usize = 64;
const END_WITHIN: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a folder says of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub nodes: u16,
    pub pool_size: Bytes,
    pub ports: Ports,
}

/// A folder that this process runs the cluster of.
#[derive(Debug)]
pub struct Folder {
    pub path: PathBuf,
    pub shape: Shape,
    /// Whether it was here before.
    pub is_old: bool,
    _lock: File,
}

impl Folder {
    /// Opens or makes one. What `wanted` says holds for a new one; an old one may only gain nodes.
    pub fn open(path: &Path, wanted: Shape) -> Result<Self> {
        let shown = path.display();
        let mark = path.join(MARK);
        let is_old = mark.exists();
        if !is_old && fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_some()) {
            bail!("{shown} holds other things: name an empty or a new folder with --data");
        }
        let host = std::path::absolute(path)?.join(Member::Host(1).to_string());
        if host.as_os_str().len() > HOST_NAME_MAX {
            let host = host.display();
            bail!("{host} is too long a name for sockets: name a shorter folder with --data");
        }
        fs::create_dir_all(path.join("logs")).with_context(|| format!("making {shown}"))?;
        // Processes are told of paths in it, wherever they run.
        let path = path.canonicalize().with_context(|| format!("finding {shown}"))?;
        let lock = lock(&path)?.with_context(|| {
            format!("a cluster runs in {shown} already: `holdfast down --data {shown}` ends it")
        })?;
        let mut shape = wanted;
        if is_old {
            let text = fs::read_to_string(&mark)?;
            let old: Shape = serde_json::from_str(&text)
                .with_context(|| format!("{} does not say what is here", mark.display()))?;
            shape = Shape { nodes: old.nodes.max(wanted.nodes), ..old };
        }
        let folder = Self { path, shape, is_old, _lock: lock };
        for number in 1..=shape.nodes {
            folder.make_disk(number)?;
        }
        folder.keep(&mark)?;
        Ok(folder)
    }

    fn keep(&self, mark: &Path) -> Result<()> {
        let draft = mark.with_extension("new");
        fs::write(&draft, serde_json::to_vec_pretty(&self.shape)?)?;
        fs::rename(&draft, mark).with_context(|| format!("writing {}", mark.display()))
    }

    /// A sparse file: it takes what is written.
    fn make_disk(&self, number: u16) -> Result<()> {
        self.state(Member::Engine(number))?;
        let path = self.disk(number);
        if path.exists() {
            return Ok(());
        }
        let made = File::create(&path).and_then(|file| file.set_len(self.shape.pool_size.0));
        made.with_context(|| format!("making {}", path.display()))
    }

    pub fn disk(&self, number: u16) -> PathBuf {
        self.path.join(Member::Engine(number).to_string()).join("disk")
    }

    pub fn log(&self, member: Member) -> PathBuf {
        self.path.join("logs").join(format!("{member}.log"))
    }

    pub(crate) fn state(&self, member: Member) -> Result<PathBuf> {
        let path = self.path.join(member.to_string());
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(path)
    }
}

/// The lock with our pid in it; `None` if another process has it.
fn lock(path: &Path) -> Result<Option<File>> {
    let path = path.join(LOCK);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            write!(file, "{}", std::process::id())?;
            Ok(Some(file))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("locking {}", path.display()))
        }
    }
}

/// Ends the process that runs the cluster of a folder, if one does, and waits for its end.
pub fn stop(path: &Path) -> Result<bool> {
    if !path.join(MARK).exists() {
        bail!("{} is no folder of `holdfast up`", path.display());
    }
    let end = Instant::now() + END_WITHIN;
    let mut told = None;
    loop {
        if lock(path)?.is_some() {
            return Ok(told.is_some());
        }
        let mut text = String::new();
        File::open(path.join(LOCK))?.read_to_string(&mut text)?;
        // It may be between taking the lock and writing its number.
        if let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw)
            && told != Some(pid)
        {
            kill_process(pid, Signal::TERM).context("telling the cluster to stop")?;
            told = Some(pid);
        }
        if Instant::now() > end {
            bail!("process {} has not ended in {END_WITHIN:?}", text.trim());
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Deletes the folder of a cluster that does not run, with all its data.
pub fn wipe(path: &Path) -> Result<()> {
    if !path.join(MARK).exists() {
        bail!("{} is no folder of `holdfast up`: nothing is deleted", path.display());
    }
    let Some(_lock) = lock(path)? else { bail!("a cluster runs in {}", path.display()) };
    fs::remove_dir_all(path).with_context(|| format!("deleting {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(nodes: u16) -> Shape {
        Shape { nodes, pool_size: Bytes::mib(64), ports: Ports::USUAL }
    }

    #[test]
    fn a_folder_is_kept_and_may_gain_nodes_but_not_lose_them() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("data");
        let disk = {
            let folder = Folder::open(&path, shape(3)).unwrap();
            assert!(!folder.is_old);
            folder.disk(1)
        };
        fs::write(&disk, "precious").unwrap();
        let folder = Folder::open(&path, shape(5)).unwrap();
        assert_eq!((folder.is_old, folder.shape.nodes), (true, 5));
        assert!(folder.disk(5).exists());
        drop(folder);
        assert_eq!(Folder::open(&path, shape(1)).unwrap().shape.nodes, 5);
        assert_eq!(fs::read_to_string(disk).unwrap(), "precious");
    }

    #[test]
    fn a_folder_too_deep_for_sockets_is_refused_and_not_made() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("x".repeat(HOST_NAME_MAX));
        let error = Folder::open(&path, shape(1)).unwrap_err();
        assert!(format!("{error:#}").contains("--data"), "{error:#}");
        assert!(!path.exists());
    }

    #[test]
    fn a_cluster_runs_once() {
        let base = tempfile::tempdir().unwrap();
        let _running = Folder::open(base.path(), shape(1)).unwrap();
        let error = Folder::open(base.path(), shape(1)).unwrap_err();
        assert!(format!("{error:#}").contains("holdfast down"), "{error:#}");
        assert!(wipe(base.path()).is_err());
        assert!(base.path().exists());
    }

    #[test]
    fn only_what_up_made_is_used_or_wiped() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("thesis");
        fs::write(&file, "years").unwrap();
        assert!(Folder::open(base.path(), shape(1)).is_err());
        assert!(stop(base.path()).is_err());
        assert!(wipe(base.path()).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "years");
        let path = base.path().join("data");
        drop(Folder::open(&path, shape(1)).unwrap());
        assert!(!stop(&path).unwrap());
        wipe(&path).unwrap();
        assert!(!path.exists());
    }
}
