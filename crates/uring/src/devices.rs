//! The node's block devices, as the kernel tells of them in files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

/// Sizes in sysfs are in sectors of this many bytes, whatever the device's own are.
const SECTOR: u64 = 512;

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BlockDevice {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub is_rotational: bool,
    pub is_read_only: bool,
    pub is_removable: bool,
    pub logical_block: u64,
    pub physical_block: u64,
    /// Where it is mounted itself, not its partitions.
    pub mounted_at: Vec<PathBuf>,
    /// Devices built upon it (volume groups, arrays, loops).
    pub held_by: Vec<String>,
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Partition {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub mounted_at: Vec<PathBuf>,
    pub held_by: Vec<String>,
}

impl BlockDevice {
    /// All disks with a size, by name.
    pub fn list() -> io::Result<Vec<Self>> {
        Self::list_from(Path::new("/sys"), Path::new("/proc"))
    }

    fn list_from(sys: &Path, proc: &Path) -> io::Result<Vec<Self>> {
        // Each line of its own may be strange; a table that cannot be read may hide a mount.
        let mounts = mounts(&fs::read_to_string(proc.join("self/mountinfo"))?);
        let swaps = swaps(&fs::read_to_string(proc.join("swaps")).unwrap_or_default());
        let seen = Seen { mounts, swaps };
        let mut devices: Vec<_> = fs::read_dir(sys.join("block"))?
            .filter_map(|entry| device(&entry.ok()?.path(), &seen))
            .collect();
        devices.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(devices)
    }

    /// Whether something else lives on it or on a part of it. A partition table alone counts.
    pub fn is_in_use(&self) -> bool {
        !self.mounted_at.is_empty() || !self.held_by.is_empty() || !self.partitions.is_empty()
    }
}

struct Seen {
    /// By the device's numbers, `major:minor`.
    mounts: BTreeMap<String, Vec<PathBuf>>,
    swaps: BTreeSet<PathBuf>,
}

impl Seen {
    fn mounted_at(&self, folder: &Path, device: &Path) -> Vec<PathBuf> {
        let numbers = text(folder, "dev").unwrap_or_default();
        let mut places = self.mounts.get(&numbers).cloned().unwrap_or_default();
        if self.swaps.contains(device) {
            places.push("[swap]".into());
        }
        places
    }
}

/// Gone while being looked at, or without a size (an empty slot): none.
fn device(folder: &Path, seen: &Seen) -> Option<BlockDevice> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let bytes = bytes(folder).filter(|bytes| *bytes > 0)?;
    let path = node(&name);
    let number = |file: &str| text(folder, file)?.parse::<u64>().ok();
    let is = |file: &str| number(file) == Some(1);
    let mut partitions: Vec<_> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| partition(&entry.ok()?.path(), seen))
        .collect();
    partitions.sort_by(|a, b| a.name.len().cmp(&b.name.len()).then(a.name.cmp(&b.name)));
    Some(BlockDevice {
        bytes,
        model: text(folder, "device/model"),
        serial: text(folder, "device/serial").or_else(|| text(folder, "serial")),
        is_rotational: is("queue/rotational"),
        is_read_only: is("ro"),
        is_removable: is("removable"),
        logical_block: number("queue/logical_block_size").unwrap_or(SECTOR),
        physical_block: number("queue/physical_block_size").unwrap_or(SECTOR),
        mounted_at: seen.mounted_at(folder, &path),
        held_by: held_by(folder),
        partitions,
        name,
        path,
    })
}

fn partition(folder: &Path, seen: &Seen) -> Option<Partition> {
    text(folder, "partition")?;
    let name = folder.file_name()?.to_str()?.to_owned();
    let path = node(&name);
    Some(Partition {
        bytes: bytes(folder)?,
        mounted_at: seen.mounted_at(folder, &path),
        held_by: held_by(folder),
        name,
        path,
    })
}

/// The kernel writes a slash in a name as an exclamation mark.
fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

fn bytes(folder: &Path) -> Option<u64> {
    text(folder, "size")?.parse::<u64>().ok()?.checked_mul(SECTOR)
}

fn held_by(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.join("holders")) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// What a file of one line says, if it says anything.
fn text(folder: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(file)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn mounts(table: &str) -> BTreeMap<String, Vec<PathBuf>> {
    let mut mounts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in table.lines() {
        let mut words = line.split(' ').skip(2);
        if let (Some(numbers), Some(_), Some(place)) = (words.next(), words.next(), words.next()) {
            mounts.entry(numbers.to_owned()).or_default().push(unescaped(place).into());
        }
    }
    mounts
}

fn swaps(table: &str) -> BTreeSet<PathBuf> {
    let first = |line: &str| Some(unescaped(line.split_whitespace().next()?).into());
    table.lines().skip(1).filter_map(first).collect()
}

/// Blanks and backslashes in these tables are written as three octal digits.
fn unescaped(word: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(word.to_owned(), |word, (from, to)| word.replace(from, to))
}

#[cfg(test)]
mod tests;
