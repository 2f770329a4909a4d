//! The processes of a cluster, and how each is started.

use std::{
    fmt,
    fs::OpenOptions,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};

use crate::{Folder, Network, Ports};

/// One process. Nodes and hosts count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    Controller(u16),
    Engine(u16),
    Host(u16),
    /// The store, where it is a process of the cluster.
    Etcd,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(number) => write!(f, "controller-{number}"),
            Self::Engine(number) => write!(f, "node-{number}"),
            Self::Host(number) => write!(f, "host-{number}"),
            Self::Etcd => f.write_str("etcd"),
        }
    }
}

/// The program that every process is, and what they share.
#[derive(Clone, Debug)]
pub struct Binary {
    pub path: PathBuf,
    /// `embedded:FOLDER` or `etcd:URL`.
    pub store: String,
    /// How many controllers there are: more than one needs etcd.
    pub controllers: u16,
    /// Let faults be injected: for tests.
    pub takes_faults: bool,
    /// What controllers are told besides.
    pub controller_words: Vec<String>,
    pub network: Network,
    /// The etcd of `store` is started with the others.
    pub has_etcd: bool,
}

impl Binary {
    /// This very program, with the store in the folder.
    pub fn own(folder: &Path) -> Result<Self> {
        let path = std::env::current_exe().context("finding this program")?;
        let store = format!("embedded:{}", folder.join("store").display());
        let network = Network::Loopback;
        Ok(Self {
            path,
            store,
            controllers: 1,
            takes_faults: false,
            controller_words: Vec::new(),
            network,
            has_etcd: false,
        })
    }

    /// With an etcd that is started with the others.
    #[must_use]
    pub fn with_etcd(self, ports: Ports) -> Self {
        let at = self.at(Member::Etcd, ports.etcd()[0]);
        Self { store: format!("etcd:http://{at}"), has_etcd: true, ..self }
    }

    /// Where a member listens, as others see it.
    pub(crate) fn at(&self, member: Member, place: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.network.ip(member), place.port())
    }

    pub(crate) fn start(&self, member: Member, folder: &Folder, ports: Ports) -> Result<Child> {
        let log = folder.log(member);
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("opening {}", log.display()))?;
        let mut command = match member {
            Member::Etcd => self.etcd(folder, ports)?,
            _ => self.own_command(member, folder, ports)?,
        };
        command
            // Ctrl-C is for the one who runs it, who stops them in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {member}"))
    }

    fn own_command(&self, member: Member, folder: &Folder, ports: Ports) -> Result<Command> {
        let mut command = self.network.command(member, self.path.as_os_str());
        self.say(&mut command, member, folder, ports)?;
        if self.network != Network::Loopback && !matches!(member, Member::Host(_)) {
            // Nobody else is on that network.
            command.arg("--insecure");
        }
        // It ends when this process does, whatever ends that.
        command.arg("--with-parent");
        Ok(command)
    }

    fn etcd(&self, folder: &Folder, ports: Ports) -> Result<Command> {
        let mut command = self.network.command(Member::Etcd, "setpriv".as_ref());
        let [clients, peers] = ports.etcd();
        let clients = format!("http://{}", self.at(Member::Etcd, clients));
        let peers = format!("http://{peers}");
        command.args(["--pdeathsig", "KILL", "etcd", "--name", "store"]);
        command.arg("--data-dir").arg(folder.state(Member::Etcd)?);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("store={peers}"), "--log-level", "warn"]);
        Ok(command)
    }

    fn say(
        &self,
        command: &mut Command,
        member: Member,
        folder: &Folder,
        ports: Ports,
    ) -> Result<()> {
        let state = folder.state(member)?;
        let at = |place| self.at(member, place).to_string();
        let controllers = (1..=self.controllers).map(|number| {
            self.at(Member::Controller(number), ports.controller(number)).to_string()
        });
        match member {
            Member::Controller(number) => {
                command.args(["controller", "--store", &self.store]);
                command.args(["--listen", &at(ports.controller(number))]);
                command.args(["--rest", &at(ports.rest(number))]).args(&self.controller_words);
                return Ok(());
            }
            Member::Engine(number) => {
                command.args(["engine", "--name", &member.to_string()]);
                command.args(["--listen", &at(ports.engine(number))]);
                command.args(["--admin", &at(ports.admin(number))]);
                command.arg("--disk").arg(folder.disk(number));
                if let Some(etcd) = self.store.strip_prefix("etcd:") {
                    command.args(["--etcd", etcd]);
                }
                if self.takes_faults {
                    command.arg("--allow-faults");
                }
            }
            Member::Host(_) => {
                command.args(["host", "--name", &member.to_string(), "--paths", "user"]);
                command.arg("--run").arg(&state);
            }
            Member::Etcd => return Ok(()),
        }
        command.arg("--state").arg(state);
        for controller in controllers {
            command.args(["--controller", &controller]);
        }
        Ok(())
    }
}
