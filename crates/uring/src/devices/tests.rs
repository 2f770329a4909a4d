//! Devices told from made-up trees, and from the machine's own.

use super::*;

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.file("proc/self/mountinfo", "");
        machine.file("sys/block/.keep", "");
        machine
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn list(&self) -> Vec<BlockDevice> {
        BlockDevice::list_from(&self.0.path().join("sys"), &self.0.path().join("proc")).unwrap()
    }
}

#[test]
fn a_disk_is_told_with_its_partitions_and_where_they_are_mounted() {
    let machine = Machine::new();
    machine.file("sys/block/sda/size", "2048\n");
    machine.file("sys/block/sda/dev", "8:0\n");
    machine.file("sys/block/sda/queue/rotational", "1\n");
    machine.file("sys/block/sda/device/model", "Spinner 3000  \n");
    for (name, numbers) in [("sda10", "8:10"), ("sda2", "8:2")] {
        machine.file(&format!("sys/block/sda/{name}/partition"), "1\n");
        machine.file(&format!("sys/block/sda/{name}/size"), "1024\n");
        machine.file(&format!("sys/block/sda/{name}/dev"), numbers);
    }
    machine.file("proc/self/mountinfo", "29 1 8:2 / /with\\040space rw - ext4 /dev/sda2 rw\n");
    let [sda] = machine.list().try_into().unwrap();
    assert_eq!((sda.bytes, sda.is_rotational), (1 << 20, true));
    assert_eq!(sda.model.as_deref(), Some("Spinner 3000"));
    let names: Vec<_> = sda.partitions.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["sda2", "sda10"]);
    assert_eq!(sda.partitions[0].mounted_at, [Path::new("/with space")]);
    assert!(sda.mounted_at.is_empty() && sda.is_in_use());
}

#[test]
fn a_disk_is_in_use_if_a_swap_or_another_device_lies_on_it() {
    let machine = Machine::new();
    for name in ["sda", "sdb", "sdc", "empty"] {
        machine.file(&format!("sys/block/{name}/size"), if name == "empty" { "0" } else { "8" });
    }
    machine.file("sys/block/sda/holders/dm-0", "");
    machine.file("proc/swaps", "Filename Type\n/dev/sdb partition 1 0 -2\n");
    let used: Vec<_> = machine.list().iter().map(|d| (d.name.clone(), d.is_in_use())).collect();
    let expected = [("sda", true), ("sdb", true), ("sdc", false)];
    assert_eq!(used, expected.map(|(name, used)| (name.to_owned(), used)));
}

#[test]
fn a_slash_in_a_name_is_one_in_the_path() {
    let machine = Machine::new();
    machine.file("sys/block/cciss!c0d0/size", "8");
    assert_eq!(machine.list()[0].path, Path::new("/dev/cciss/c0d0"));
}

#[test]
fn the_machine_itself_can_be_asked() {
    for device in BlockDevice::list().unwrap() {
        assert!(device.bytes > 0 && device.path.starts_with("/dev"), "{device:?}");
    }
}
