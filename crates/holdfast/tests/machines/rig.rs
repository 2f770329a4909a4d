//! The processes of the guide, on their machines.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::net;

const BINARY: &str = env!("CARGO_BIN_EXE_holdfast");
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/config");
/// A busy machine syncs three etcds slowly.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the guide puts the operator's certificate.
pub const CLIENT: &str = "/etc/holdfast/admin";

pub struct Rig {
    folder: tempfile::TempDir,
    running: BTreeMap<String, Child>,
    /// The machine whose controller is asked.
    asked: u8,
}

impl Drop for Rig {
    fn drop(&mut self) {
        for (_, mut child) in std::mem::take(&mut self.running) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            self.print_logs();
        }
    }
}

impl Rig {
    pub fn start() -> Self {
        net::build();
        let folder = tempfile::Builder::new().prefix("hfm").tempdir().unwrap();
        let mut rig = Self { folder, running: BTreeMap::new(), asked: 1 };
        rig.certificates();
        for n in 1..=3 {
            let disk = fs::File::create(rig.path(n, "disk")).unwrap();
            disk.set_len(512 << 20).unwrap();
            rig.begin_etcd(n);
        }
        for n in 1..=3 {
            rig.begin("controller", n);
            rig.begin("engine", n);
        }
        rig.begin("host", 1);
        rig
    }

    pub fn path(&self, machine: u8, name: &str) -> PathBuf {
        self.folder.path().join(format!("m{machine}")).join(name)
    }

    /// The first part of the guide.
    fn certificates(&self) {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        self.must(&["pki", "init", &at("pki")]);
        self.must(&["pki", "init", &at("etcd-pki")]);
        for n in 1..=3 {
            fs::create_dir_all(self.path(n, "etc")).unwrap();
            let (node, address) = (format!("node-{n}"), net::address(n));
            let out = |name: &str| self.path(n, &format!("etc/{name}")).display().to_string();
            let dialled = ["--address", &address];
            for (pki, role, place, more) in [
                ("etcd-pki", "etcd", "etcd", &dialled[..]),
                ("pki", "controller", "controller", &dialled[..]),
                ("pki", "engine", "engine", &[]),
                ("pki", "host", "host", &[]),
            ] {
                let words = ["pki", "issue", &at(pki), role, &node, "--out", &out(place)];
                self.must(&[&words[..], more].concat());
            }
        }
        self.must(&["pki", "issue", &at("pki"), "client", "admin", "--out", &at("admin")]);
    }

    /// A file of the guide, with the addresses and paths of a machine here.
    fn filled(&self, name: &str, machine: u8) -> String {
        let text = fs::read_to_string(Path::new(DEPLOY).join(name)).unwrap();
        let folder = |inside: &str| self.path(machine, inside).display().to_string();
        let mut marked = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            // The mark stands at the end of a line, or on the line before.
            let own = marked || (line.contains("this machine") && !line.starts_with('#'));
            marked = line == "# this machine:";
            let line = match own {
                true => line
                    .replace("10.0.0.1", &format!("10.0.0.{machine}"))
                    .replace("node-1", &format!("node-{machine}")),
                false => line.to_owned(),
            };
            let line = line
                .replace("10.0.0.", "192.0.2.")
                .replace("/etc/etcd/pki", &folder("etc/etcd"))
                .replace("/etc/holdfast", &folder("etc"))
                .replace("/var/lib", &folder("lib"))
                .replace("/run/holdfast", &folder("run"))
                .replace("/dev/nvme1n1", &folder("disk"));
            lines.push(line);
        }
        lines.join("\n") + "\n"
    }

    fn begin_etcd(&mut self, machine: u8) {
        fs::create_dir_all(self.path(machine, "lib/etcd")).unwrap();
        let mut command = net::on(machine, "etcd");
        let text = self.filled("etcd.env", machine);
        let set = text.lines().filter(|line| !line.starts_with('#'));
        command.envs(set.map(|line| line.split_once('=').unwrap()));
        self.spawn(format!("etcd-{machine}"), command);
    }

    /// A process of ours, from its config file.
    pub fn begin(&mut self, process: &str, machine: u8) {
        let file = self.path(machine, &format!("{process}.toml"));
        let config = self.filled(&format!("{process}.toml"), machine);
        fs::write(&file, config).unwrap();
        let mut command = net::on(machine, BINARY);
        command.arg(process).arg("--config").arg(&file);
        if process == "host" {
            // Whatever this machine's kernel can do: an application here uses NBD.
            command.args(["--paths", "user"]);
        }
        self.spawn(format!("{process}-{machine}"), command);
    }

    fn spawn(&mut self, name: String, mut command: Command) {
        let log = self.folder.path().join(format!("{name}.log"));
        let log = fs::File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.running.insert(name, command.spawn().unwrap());
    }

    pub fn kill(&mut self, name: &str) {
        let mut child = self.running.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        if name == format!("controller-{}", self.asked) {
            self.asked = self.asked % 3 + 1;
        }
    }

    pub fn ask_at(&mut self, machine: u8) {
        self.asked = machine;
    }

    /// A command of the operator, from outside the three machines.
    pub fn say(&self, words: &[&str]) -> (bool, String) {
        self.say_with(Some(&self.folder.path().join("admin")), words)
    }

    pub fn say_with(&self, pki: Option<&Path>, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(BINARY);
        command.args(words).env_remove("HOLDFAST_PKI");
        let server = format!("https://{}:7421", net::address(self.asked));
        command.env("HOLDFAST_SERVER", server);
        if let Some(pki) = pki {
            command.env("HOLDFAST_PKI", pki);
        }
        said(&mut command)
    }

    pub fn bare(&self, words: &[&str]) -> (bool, String) {
        said(Command::new(BINARY).args(words))
    }

    fn must(&self, words: &[&str]) {
        let (is_fine, said) = self.bare(words);
        assert!(is_fine, "{words:?}: {said}");
    }

    pub fn fine(&self, words: &[&str]) -> String {
        let (is_fine, said) = self.say(words);
        assert!(is_fine, "{words:?}: {said}");
        said
    }

    /// As the guide's units say (`Restart=always`): a controller that finds no etcd yet ends, and
    /// is started again.
    fn start_ended(&mut self) {
        let has_ended = |child: &mut Child| child.try_wait().unwrap().is_some();
        let ended: Vec<String> = self
            .running
            .iter_mut()
            .filter_map(|(name, child)| has_ended(child).then(|| name.clone()))
            .collect();
        for name in ended {
            let (process, machine) = name.rsplit_once('-').unwrap();
            assert_ne!(process, "etcd", "{name} ended by itself");
            self.begin(process, machine.parse().unwrap());
        }
    }

    pub fn until(&mut self, what: &str, words: &[&str], is_so: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.start_ended();
            let (is_fine, said) = self.say(words);
            if is_fine && is_so(&said) {
                return;
            }
            assert!(Instant::now() < end, "{what}: not so; {said}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The number of the machine that serves a volume.
    pub fn server_of(&self, volume: &str) -> u8 {
        let shown = self.fine(&["get", "volumes", volume, "-o", "wide"]);
        let (_, after) = shown.split_once("node-").unwrap_or_else(|| panic!("{shown}"));
        after[..1].parse().unwrap()
    }

    /// The number of the machine whose controller leads.
    pub fn leader(&self) -> u8 {
        let shown = self.fine(&["get", "cluster", "-o", "json"]);
        let (_, after) = shown.split_once("https://192.0.2.").unwrap_or_else(|| panic!("{shown}"));
        after[..1].parse().unwrap()
    }

    fn print_logs(&self) {
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "log") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                println!("--- {}", path.display());
                println!("{}", lines[lines.len().saturating_sub(15)..].join("\n"));
            }
        }
    }
}

fn said(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let words = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&words).into_owned())
}
