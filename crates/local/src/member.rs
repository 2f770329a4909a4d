//! The processes of a cluster, and how each is started.

use std::{
    fmt,
    fs::OpenOptions,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};

use crate::{Folder, Ports};

/// One process. Nodes and hosts count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    Controller(u16),
    Engine(u16),
    Host(u16),
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(number) => write!(f, "controller-{number}"),
            Self::Engine(number) => write!(f, "node-{number}"),
            Self::Host(number) => write!(f, "host-{number}"),
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
}

impl Binary {
    /// This very program, with the store in the folder.
    pub fn own(folder: &Path) -> Result<Self> {
        let path = std::env::current_exe().context("finding this program")?;
        let store = format!("embedded:{}", folder.join("store").display());
        Ok(Self { path, store, controllers: 1, takes_faults: false })
    }

    pub(crate) fn start(&self, member: Member, folder: &Folder, ports: Ports) -> Result<Child> {
        let log = folder.log(member);
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("opening {}", log.display()))?;
        let mut command = Command::new(&self.path);
        self.say(&mut command, member, folder, ports)?;
        command
            // It ends when this process does, whatever ends that.
            .arg("--with-parent")
            // Ctrl-C is for the one who runs it, who stops them in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {member}"))
    }

    fn say(
        &self,
        command: &mut Command,
        member: Member,
        folder: &Folder,
        ports: Ports,
    ) -> Result<()> {
        let state = folder.state(member)?;
        let controllers = (1..=self.controllers).map(|number| ports.controller(number).to_string());
        match member {
            Member::Controller(number) => {
                command.args(["controller", "--store", &self.store]);
                command.args(["--listen", &ports.controller(number).to_string()]);
                command.args(["--rest", &ports.rest(number).to_string()]);
                return Ok(());
            }
            Member::Engine(number) => {
                command.args(["engine", "--name", &member.to_string()]);
                command.args(["--listen", &ports.engine(number).to_string()]);
                command.args(["--admin", &ports.admin(number).to_string()]);
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
        }
        command.arg("--state").arg(state);
        for controller in controllers {
            command.args(["--controller", &controller]);
        }
        Ok(())
    }
}
