//! Who a node is, kept across restarts, and ids that follow from names.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use model::NodeId;
use uuid::{Builder, Uuid, Variant, Version};

/// The node's id in the folder, made now if there is none.
pub(super) fn kept(folder: &Path) -> Result<NodeId> {
    kept_as(folder, "node-id").map(NodeId)
}

/// The id in a file of the folder, made now if there is none.
pub(crate) fn kept_as(folder: &Path, name: &str) -> Result<Uuid> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().with_context(|| format!("{} holds no id", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => make(folder, &path),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

fn make(folder: &Path, path: &Path) -> Result<Uuid> {
    let id = Uuid::new_v4();
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        // Whole or not at all: half an id would be somebody else.
        let draft = path.with_extension("new");
        let mut file = fs::File::create(&draft)?;
        writeln!(file, "{id}")?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        fs::File::open(folder)?.sync_all()
    };
    written().with_context(|| format!("writing {}", path.display()))?;
    Ok(id)
}

/// What the machine calls itself.
pub(crate) fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".into() } else { name.into() }
}

/// The same words, the same id: FNV-1a of 128 bits, marked as an id of our own making.
pub(super) fn named(kind: &str, name: &str) -> Uuid {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in kind.bytes().chain([0]).chain(name.bytes()) {
        hash ^= u128::from(byte);
        hash = hash.wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    let builder = Builder::from_u128(hash);
    builder.with_variant(Variant::RFC4122).with_version(Version::Custom).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_id_and_damage_makes_no_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("state");
        let first = kept(&inside).unwrap();
        assert_eq!(kept(&inside).unwrap(), first);
        fs::write(inside.join("node-id"), "half of one").unwrap();
        assert!(kept(&inside).is_err());
    }

    /// Pools on disk carry these ids: another way to make them would orphan every one.
    #[test]
    fn ids_of_names_never_change() {
        let id = named("volume", "data");
        assert_eq!(id.to_string(), "4461ae21-b837-8b2d-8fec-81658a7fbdc5");
        assert_ne!(named("volume", "data"), named("pool", "data"));
        assert_ne!(named("volume", "data1"), named("volume", "data2"));
    }
}
