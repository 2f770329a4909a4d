//! The adapter on a kernel made of files.

use std::{fs, path::Path};

use model::controller_range;

use super::*;

const VOLUME: VolumeId = VolumeId::from_u128(7);
const HOST: HostId = HostId::from_u128(1);

/// A kernel made of files: what is written to it takes effect when `work` is called.
struct Fake {
    folder: tempfile::TempDir,
    made: u16,
    /// It has looked for namespaces on new controllers.
    is_scanned: bool,
}

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("dev")).unwrap();
        fs::write(folder.path().join("dev/nvme-fabrics"), "").unwrap();
        Self { folder, made: 0, is_scanned: true }
    }

    fn kernel(&self, before: Option<&Local>) -> Kernel {
        let (root, bell) = (self.folder.path().to_path_buf(), Arc::new(Notify::new()));
        Kernel::open(root, HOST, HOST.nqn(), limits::GIVE_UP, before, bell).unwrap()
    }

    fn class(&self) -> PathBuf {
        self.folder.path().join("sys/class/nvme")
    }

    /// Does what was asked; targets are of this epoch.
    fn work(&mut self, epoch: u64) {
        let file = self.folder.path().join("dev/nvme-fabrics");
        let asked = fs::read_to_string(&file).unwrap();
        if !asked.is_empty() {
            fs::write(&file, "").unwrap();
            self.make(&asked, epoch);
        }
        for entry in fs::read_dir(self.class()).into_iter().flatten() {
            let folder = entry.unwrap().path();
            if fs::read_to_string(folder.join("delete_controller")).unwrap() == "1" {
                fs::remove_dir_all(folder).unwrap();
            } else if fs::read_to_string(folder.join("reset_controller")).unwrap() == "1" {
                fs::write(folder.join("reset_controller"), "").unwrap();
                fs::write(folder.join("cntlid"), number(epoch)).unwrap();
            }
        }
    }

    fn make(&mut self, asked: &str, epoch: u64) {
        let word = |name: &str| {
            let mut words = asked.split(',').filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).unwrap().1.to_owned()
        };
        let folder = self.class().join(format!("nvme{}", self.made));
        self.made += 1;
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("transport", &word("transport"));
        write("subsysnqn", &format!("{}\n", word("nqn")));
        write("hostnqn", &word("hostnqn"));
        write("address", &format!("traddr={},trsvcid={}", word("traddr"), word("trsvcid")));
        write("state", "live\n");
        write("cntlid", &number(epoch));
        write("delete_controller", "");
        write("reset_controller", "");
        let subsystem = self.folder.path().join("sys/class/nvme-subsystem/nvme-subsys0");
        fs::create_dir_all(subsystem.join("nvme0n1")).unwrap();
        fs::create_dir_all(subsystem.join("ng0n1")).unwrap();
        fs::write(subsystem.join("subsysnqn"), word("nqn")).unwrap();
        fs::write(subsystem.join("nvme0n1/uuid"), VOLUME.to_string()).unwrap();
        if self.is_scanned {
            join(&folder, "optimized");
        }
    }

    /// The kernel has noticed that nobody answers there, and what it does about it.
    fn now_is(&self, controller: &str, state: &str) {
        fs::write(self.class().join(controller).join("state"), format!("{state}\n")).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.class()).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The namespace is found through this controller.
fn join(controller: &Path, state: &str) {
    let number = controller.file_name().unwrap().to_str().unwrap().strip_prefix("nvme").unwrap();
    let path = controller.join(format!("nvme0c{number}n1"));
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("uuid"), format!("{VOLUME}\n")).unwrap();
    fs::write(path.join("ana_state"), format!("{state}\n")).unwrap();
}

fn number(epoch: u64) -> String {
    (controller_range(epoch).0 + 5).to_string()
}

fn item(node: u128, port: u16, epoch: u64) -> PathItem {
    let (node, epoch) = (NodeId::from_u128(node), Epoch(epoch));
    PathItem { node, address: format!("127.0.0.1:{port}"), epoch }
}

/// Looks, lets the kernel work, and looks again, until it is as expected.
fn until(fake: &mut Fake, kernel: &mut Kernel, epoch: u64, expected: &[(u64, PathHealth)]) -> Held {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        fake.work(epoch);
        let held = kernel.look().remove(&VOLUME).unwrap_or_default();
        let seen: Vec<_> = held.paths.iter().map(|path| (path.epoch.0, path.health)).collect();
        if seen == expected {
            return held;
        }
        assert!(Instant::now() < end, "{seen:?}, expected {expected:?}");
        thread::yield_now();
    }
}

/// Looks until these controllers are left.
fn until_left(fake: &mut Fake, kernel: &mut Kernel, expected: &[&str]) {
    let end = Instant::now() + Duration::from_secs(10);
    while fake.names() != expected {
        kernel.look();
        fake.work(2);
        assert!(Instant::now() < end, "{:?}, expected {expected:?}", fake.names());
        thread::yield_now();
    }
}

#[test]
fn a_kernel_without_fabrics_is_refused_with_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (root, bell) = (folder.path().to_path_buf(), Arc::new(Notify::new()));
    let refused = Kernel::open(root, HOST, HOST.nqn(), limits::GIVE_UP, None, bell).unwrap_err();
    assert!(refused.to_string().contains("dev/nvme-fabrics"), "{refused}");
}

/// HA-4: the new controller is live before the old one goes, and the device stays.
#[test]
fn a_path_is_replaced_by_one_that_is_live() {
    let mut fake = Fake::new();
    let mut kernel = fake.kernel(None);
    kernel.follow(VOLUME, &item(1, 4420, 1));
    let held = until(&mut fake, &mut kernel, 1, &[(1, PathHealth::Live)]);
    assert_eq!(held.device, Some(Device::Block { path: Path::new("/dev/nvme0n1").into() }));
    kernel.follow(VOLUME, &item(2, 4421, 2));
    let held = kernel.look().remove(&VOLUME).unwrap();
    assert_eq!(held.paths[0].epoch, Epoch(1), "the old one stays until the new one is live");
    until(&mut fake, &mut kernel, 2, &[(2, PathHealth::Live)]);
    assert_eq!(fake.names(), ["nvme0", "nvme1"], "the kernel has not noticed yet");
    fake.now_is("nvme0", "resetting");
    until(&mut fake, &mut kernel, 2, &[(2, PathHealth::Live)]);
    assert_eq!(fake.names(), ["nvme0", "nvme1"], "a removal would be in the way of the reset");
    fake.now_is("nvme0", "connecting");
    until_left(&mut fake, &mut kernel, &["nvme1"]);
    kernel.leave(VOLUME);
    until(&mut fake, &mut kernel, 2, &[]);
    assert!(fake.names().is_empty());
}

/// HA-4: a live controller through which the volume is not found yet does not replace another: with
/// the last path the device would go.
#[test]
fn a_path_stays_until_the_volume_is_found_through_the_new_one() {
    let mut fake = Fake::new();
    let mut kernel = fake.kernel(None);
    kernel.follow(VOLUME, &item(1, 4420, 1));
    until(&mut fake, &mut kernel, 1, &[(1, PathHealth::Live)]);
    fake.is_scanned = false;
    kernel.follow(VOLUME, &item(2, 4421, 2));
    let both = [(1, PathHealth::Live), (2, PathHealth::Connecting)];
    while fake.made < 2 {
        until(&mut fake, &mut kernel, 2, &both);
    }
    for state in [None, Some("inaccessible")] {
        if let Some(state) = state {
            join(&fake.class().join("nvme1"), state);
        }
        until(&mut fake, &mut kernel, 2, &both);
        until(&mut fake, &mut kernel, 2, &both);
        assert_eq!(fake.names(), ["nvme0", "nvme1"]);
    }
    join(&fake.class().join("nvme1"), "optimized");
    until(&mut fake, &mut kernel, 2, &[(2, PathHealth::Live)]);
    // Its target answers: the kernel would never give it up.
    kernel.patience = Duration::ZERO;
    until_left(&mut fake, &mut kernel, &["nvme1"]);
}

/// HA-3: a target that was started again at the same address is another one.
#[test]
fn a_session_with_an_older_target_at_the_same_address_is_reset() {
    let mut fake = Fake::new();
    let mut kernel = fake.kernel(None);
    kernel.follow(VOLUME, &item(1, 4420, 1));
    until(&mut fake, &mut kernel, 1, &[(1, PathHealth::Live)]);
    kernel.follow(VOLUME, &item(1, 4420, 2));
    until(&mut fake, &mut kernel, 2, &[(2, PathHealth::Live)]);
    assert_eq!(fake.names(), ["nvme0"]);
}

/// HA-3: a target that comes back before its old path went is followed there.
#[test]
fn a_path_that_was_replaced_counts_again_when_the_target_returns_to_it() {
    let mut fake = Fake::new();
    let mut kernel = fake.kernel(None);
    kernel.follow(VOLUME, &item(1, 4420, 1));
    until(&mut fake, &mut kernel, 1, &[(1, PathHealth::Live)]);
    kernel.follow(VOLUME, &item(2, 4421, 2));
    until(&mut fake, &mut kernel, 2, &[(2, PathHealth::Live)]);
    assert_eq!(fake.names(), ["nvme0", "nvme1"]);
    kernel.follow(VOLUME, &item(1, 4420, 3));
    until(&mut fake, &mut kernel, 3, &[(3, PathHealth::Live)]);
}

/// HA-1: a controller that is not live any more is reported as lost, once.
#[test]
fn a_controller_that_reconnects_is_a_failed_path() {
    let mut fake = Fake::new();
    let mut kernel = fake.kernel(None);
    kernel.follow(VOLUME, &item(1, 4420, 1));
    until(&mut fake, &mut kernel, 1, &[(1, PathHealth::Live)]);
    fake.now_is("nvme0", "connecting");
    let lost = kernel.look().remove(&VOLUME).unwrap().paths[0].health;
    assert!(matches!(lost, PathHealth::Failed { kind: PathFailure::Reset, .. }), "{lost:?}");
    assert_eq!(kernel.look().remove(&VOLUME).unwrap().paths[0].health, lost);
}

/// Connections of the kernel survive their host: a new one finds them, and knows of which target.
#[test]
fn a_restarted_host_finds_the_paths_that_the_kernel_has_kept() {
    let mut fake = Fake::new();
    let mut kernel = fake.kernel(None);
    kernel.follow(VOLUME, &item(1, 4420, 3));
    until(&mut fake, &mut kernel, 3, &[(3, PathHealth::Live)]);
    let volumes = kernel.look();
    let local = Local { host: HOST, name: "h".into(), way: "kernel".into(), volumes };
    drop(kernel);
    let mut kernel = fake.kernel(Some(&local));
    assert_eq!(kernel.look(), local.volumes);
    let mut stranger = fake.kernel(None);
    let seen = stranger.look().remove(&VOLUME).unwrap().paths[0].epoch;
    assert_eq!(seen, Epoch::ZERO, "what is not known is no target of ours");
    kernel.leave(VOLUME);
    until(&mut fake, &mut kernel, 3, &[]);
}
