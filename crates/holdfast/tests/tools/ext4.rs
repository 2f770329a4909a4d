//! A file system on a volume, while the target under it is killed. Mounts need root.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use crate::rig::{Place, Running, succeed};

const PATIENCE: Duration = Duration::from_secs(30);
const FILES: usize = 400;

/// The volume as a file, by way of NBD and FUSE.
struct AsFile {
    nbd: Running,
    fuse: Child,
    folder: PathBuf,
}

impl AsFile {
    fn open(place: &Place, uri: &str) -> Self {
        let nbd = place.nbd(uri);
        let (folder, pid) = (place.path("fuse"), place.path("fuse.pid"));
        fs::create_dir_all(&folder).unwrap();
        let _ = fs::remove_file(&pid);
        let mut command = Command::new("nbdfuse");
        command.arg("-P").arg(&pid).arg(folder.join("disk")).arg(&nbd.word);
        let fuse = command.spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        while !pid.exists() {
            assert!(Instant::now() < end, "nbdfuse does not start");
            thread::yield_now();
        }
        Self { nbd, fuse, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("disk")
    }
}

impl Drop for AsFile {
    fn drop(&mut self) {
        unmount(&self.folder);
        let _ = self.fuse.kill();
        let _ = self.fuse.wait();
    }
}

struct Mounted(PathBuf);

impl Mounted {
    fn new(disk: &Path, at: PathBuf) -> Self {
        fs::create_dir_all(&at).unwrap();
        succeed(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(disk).arg(&at));
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

/// At once where it can, else as soon as nobody uses it.
fn unmount(at: &Path) {
    let done = Command::new("umount").arg(at).output();
    if !done.is_ok_and(|done| done.status.success()) {
        let _ = Command::new("umount").arg("-l").arg(at).output();
    }
}

fn path(root: &Path, number: usize) -> PathBuf {
    root.join(format!("d{}/e{}/f{number}", number % 7, number % 31))
}

fn content(number: usize) -> Vec<u8> {
    (0..1 + number * 97 % 60_000).map(|at| (at * (number + 1)).to_le_bytes()[0]).collect()
}

/// Writes files until it is through or cannot; names those that are safe, each once it is.
fn write_tree(root: &Path) -> Receiver<usize> {
    let (tell, told) = channel();
    let root = root.to_owned();
    thread::spawn(move || {
        for number in 0..FILES {
            let path = path(&root, number);
            let written = || -> std::io::Result<()> {
                fs::create_dir_all(path.parent().unwrap())?;
                let mut file = fs::File::create(&path)?;
                file.write_all(&content(number))?;
                file.sync_all()
            };
            if written().is_err() || tell.send(number).is_err() {
                return;
            }
        }
    });
    told
}

fn check_tree(root: &Path, numbers: &[usize]) {
    for number in numbers {
        let found = fs::read(path(root, *number)).unwrap();
        assert!(found == content(*number), "file {number} differs");
    }
}

fn assert_clean(disk: &Path) {
    succeed(Command::new("e2fsck").args(["-f", "-n"]).arg(disk));
}

#[test]
fn an_ext4_is_clean_after_its_target_was_killed_while_a_tree_was_written() {
    let place = Place::new();
    let mut target = place.serve();
    let disk = AsFile::open(&place, &target.word);
    succeed(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.file()));
    let mounted = Mounted::new(&disk.file(), place.path("mnt"));
    let told = write_tree(&mounted.0);
    let mut safe: Vec<usize> = Vec::new();
    for _ in 0..3 {
        safe.extend(told.iter().take(40));
        target.kill();
        target = place.serve();
    }
    safe.extend(told.iter());
    assert_eq!(safe.len(), FILES, "a file could not be written");
    drop(mounted);
    assert_clean(&disk.file());
    let mounted = Mounted::new(&disk.file(), place.path("mnt"));
    check_tree(&mounted.0, &safe);
}

#[test]
fn an_ext4_is_clean_and_has_every_synced_file_after_target_and_host_were_killed() {
    let place = Place::new();
    let mut target = place.serve();
    let mut disk = AsFile::open(&place, &target.word);
    succeed(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.file()));
    let mounted = Mounted::new(&disk.file(), place.path("mnt"));
    let told = write_tree(&mounted.0);
    let mut safe: Vec<usize> = told.iter().take(80).collect();
    target.kill();
    disk.nbd.kill();
    safe.extend(told.iter());
    assert!(safe.len() < FILES, "it was through before the target was killed");
    drop(mounted);
    drop(disk);

    let target = place.serve();
    let disk = AsFile::open(&place, &target.word);
    // Replays the journal; 1 tells that something was put right, which is what a journal is for.
    let replayed = Command::new("e2fsck").arg("-p").arg(disk.file()).output().unwrap();
    assert!(matches!(replayed.status.code(), Some(0 | 1)), "{replayed:?}");
    assert_clean(&disk.file());
    let mounted = Mounted::new(&disk.file(), place.path("mnt"));
    check_tree(&mounted.0, &safe);
}
