//! The machine's disks, in the words of the model.

use std::path::Path;

use model::{BlockDevice, Bytes};

/// What the kernel tells; nothing where it tells nothing, for a node works without.
pub(crate) fn list() -> Vec<BlockDevice> {
    uring::BlockDevice::list().unwrap_or_default().into_iter().map(told).collect()
}

fn told(disk: uring::BlockDevice) -> BlockDevice {
    let parts = &disk.partitions;
    let mounted = parts.iter().flat_map(|part| &part.mounted_at);
    let held = parts.iter().flat_map(|part| &part.held_by);
    BlockDevice {
        size: Bytes(disk.bytes),
        logical_block: Bytes(disk.logical_block),
        rotational: disk.is_rotational,
        read_only: disk.is_read_only,
        removable: disk.is_removable,
        mounted_at: disk.mounted_at.iter().chain(mounted).map(text).collect(),
        held_by: disk.held_by.iter().chain(held).cloned().collect(),
        partitions: parts.iter().map(|part| text(&part.path)).collect(),
        path: text(&disk.path),
        name: disk.name,
        model: disk.model,
        serial: disk.serial,
    }
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use uring::Partition;

    use super::*;

    #[test]
    fn a_disk_with_a_mounted_partition_is_in_use() {
        let partition = Partition {
            name: "sda1".into(),
            path: "/dev/sda1".into(),
            bytes: 1 << 20,
            mounted_at: vec![PathBuf::from("/home")],
            held_by: vec!["dm-0".into()],
        };
        let disk = |partitions| uring::BlockDevice {
            name: "sda".into(),
            path: "/dev/sda".into(),
            bytes: 1 << 30,
            model: None,
            serial: None,
            is_rotational: false,
            is_read_only: false,
            is_removable: false,
            logical_block: 512,
            physical_block: 4096,
            mounted_at: Vec::new(),
            held_by: Vec::new(),
            partitions,
        };
        assert!(!told(disk(Vec::new())).is_in_use());
        let told = told(disk(vec![partition]));
        assert!(told.is_in_use());
        assert_eq!(told.mounted_at, ["/home"]);
        assert_eq!(
            (told.held_by, told.partitions),
            (vec!["dm-0".into()], vec!["/dev/sda1".into()])
        );
    }
}
