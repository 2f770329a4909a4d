//! The kernel's files about NVMe: which controllers there are, and how they are made and removed.

use std::{
    fs, io,
    io::Write as _,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use model::{Epoch, VolumeId, controller_range};
use uuid::Uuid;

/// Where the files are: `/`, or a folder that looks like it.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

/// One connection of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) name: String,
    /// If its subsystem has a name that a volume of ours could have.
    pub(super) volume: Option<VolumeId>,
    pub(super) host_nqn: String,
    pub(super) address: Option<SocketAddr>,
    pub(super) state: State,
    /// The volume is found through it, and commands may go there. The kernel looks for namespaces
    /// only after a controller is live.
    pub(super) is_joined: bool,
    number: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// New, or connecting again.
    Coming,
    /// What was under way is being taken back; a removal would be in its way.
    Resetting,
    Deleting,
}

const CONTROLLERS: &str = "sys/class/nvme";
const SUBSYSTEMS: &str = "sys/class/nvme-subsystem";

impl Controller {
    /// Whether the target that gave it its number may be of this epoch.
    pub(super) fn is_of(&self, epoch: Epoch) -> bool {
        let (first, count) = controller_range(epoch.0);
        self.number.is_some_and(|number| number >= first && number - first < count)
    }
}

impl Tree {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn fabrics(&self) -> PathBuf {
        self.root.join("dev/nvme-fabrics")
    }

    pub(super) fn is_there(&self) -> bool {
        self.fabrics().exists()
    }

    /// Those over TCP.
    pub(super) fn controllers(&self) -> Vec<Controller> {
        let folders = children(&self.root.join(CONTROLLERS)).into_iter();
        let tcp = folders.filter(|folder| read(folder, "transport").as_deref() == Some("tcp"));
        tcp.filter_map(|folder| controller(&folder)).collect()
    }

    /// Has the kernel connect; it answers when that is decided.
    pub(super) fn connect(&self, options: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(self.fabrics())?;
        // In one write: each one is a command.
        let written = file.write(options.as_bytes())?;
        if written == options.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    pub(super) fn delete(&self, controller: &Controller) -> io::Result<()> {
        self.tell(controller, "delete_controller")
    }

    pub(super) fn reset(&self, controller: &Controller) -> io::Result<()> {
        self.tell(controller, "reset_controller")
    }

    fn tell(&self, controller: &Controller, file: &str) -> io::Result<()> {
        let path = self.root.join(CONTROLLERS).join(&controller.name).join(file);
        fs::OpenOptions::new().write(true).open(path)?.write_all(b"1")
    }

    /// The block device on top of the volume's paths.
    pub(super) fn device(&self, volume: VolumeId) -> Option<PathBuf> {
        let subsystems = children(&self.root.join(SUBSYSTEMS)).into_iter();
        let mut ours = subsystems.filter(|folder| read(folder, "subsysnqn") == Some(volume.nqn()));
        let folder = ours.next()?;
        let names = children(&folder).into_iter().filter_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            is_namespace(&name).then_some((path, name))
        });
        let (_, name) = names.into_iter().find(|(path, _)| uuid(path) == Some(volume.0))?;
        Some(Path::new("/dev").join(name))
    }
}

fn controller(folder: &Path) -> Option<Controller> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let subsystem = read(folder, "subsysnqn")?;
    let id = subsystem.rsplit(':').next().and_then(|id| id.parse().ok()).map(VolumeId);
    let state = match read(folder, "state")?.as_str() {
        "live" => State::Live,
        "new" | "connecting" => State::Coming,
        "resetting" => State::Resetting,
        _ => State::Deleting,
    };
    let volume = id.filter(|id| id.nqn() == subsystem);
    Some(Controller {
        name,
        volume,
        is_joined: volume.is_some_and(|volume| is_joined(folder, volume)),
        host_nqn: read(folder, "hostnqn").unwrap_or_default(),
        address: read(folder, "address").and_then(|text| address(&text)),
        state,
        number: read(folder, "cntlid").and_then(|text| text.parse().ok()),
    })
}

/// Whether one of a controller's folders is the volume, `nvme0c1n1` or without multipath `nvme1n1`,
/// in a state in which commands are sent there.
fn is_joined(controller: &Path, volume: VolumeId) -> bool {
    children(controller).iter().any(|path| {
        let state = read(path, "ana_state");
        let takes = state.is_none_or(|state| ["optimized", "non-optimized"].contains(&&*state));
        takes && uuid(path) == Some(volume.0)
    })
}

fn uuid(namespace: &Path) -> Option<Uuid> {
    read(namespace, "uuid").and_then(|text| text.parse().ok())
}

/// `traddr=1.2.3.4,trsvcid=4420,…`
fn address(text: &str) -> Option<SocketAddr> {
    let word = |name: &str| {
        text.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
    };
    let ip: IpAddr = word("traddr")?.parse().ok()?;
    Some(SocketAddr::new(ip, word("trsvcid")?.parse().ok()?))
}

/// `nvme0n1`, and not `nvme0c1n1`, which is one path of it.
fn is_namespace(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    rest.is_some_and(|(subsystem, namespace)| digits(subsystem) && digits(namespace))
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn read(folder: &Path, file: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(file)).ok()?.trim().to_owned())
}
