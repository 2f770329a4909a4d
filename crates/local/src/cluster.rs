//! The processes of a cluster together: started, killed, stopped, continued, looked at.

use std::{
    collections::BTreeMap,
    process::{Child, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rest::Client;
use rustix::process::{Pid, Signal, kill_process};

use crate::{Binary, Folder, Member, Ports};

/// Engines leave their pools clean in this time, or are killed: nothing is lost by that either.
const END_WITHIN: Duration = Duration::from_secs(25);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Dropping it kills what still runs.
#[derive(Debug)]
pub struct Cluster {
    pub folder: Folder,
    pub binary: Binary,
    running: BTreeMap<Member, Child>,
}

impl Cluster {
    pub fn new(folder: Folder, binary: Binary) -> Self {
        Self { folder, binary, running: BTreeMap::new() }
    }

    pub fn ports(&self) -> Ports {
        self.folder.shape.ports
    }

    /// Every process that belongs to it.
    pub fn members(&self) -> Vec<Member> {
        let store = self.binary.has_etcd.then_some(Member::Etcd);
        let controllers = (1..=self.binary.controllers).map(Member::Controller);
        let engines = (1..=self.folder.shape.nodes).map(Member::Engine);
        store.into_iter().chain(controllers).chain(engines).chain([Member::Host(1)]).collect()
    }

    pub fn start_all(&mut self) -> Result<()> {
        self.members().into_iter().try_for_each(|member| self.start(member))
    }

    pub fn start(&mut self, member: Member) -> Result<()> {
        if self.running.contains_key(&member) {
            return Ok(());
        }
        let child = self.binary.start(member, &self.folder, self.folder.shape.ports)?;
        self.running.insert(member, child);
        Ok(())
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&mut self, member: Member) -> Result<()> {
        if let Some(mut child) = self.running.remove(&member) {
            child.kill().with_context(|| format!("killing {member}"))?;
            child.wait()?;
        }
        Ok(())
    }

    pub fn signal(&self, member: Member, signal: Signal) -> Result<()> {
        let child = self.running.get(&member).with_context(|| format!("{member} does not run"))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("no such process")?;
        kill_process(pid, signal).with_context(|| format!("signalling {member}"))
    }

    pub fn pid(&self, member: Member) -> Option<u32> {
        self.running.get(&member).map(Child::id)
    }

    /// Those that ended by themselves since the last look.
    pub fn ended(&mut self) -> Result<Vec<(Member, ExitStatus)>> {
        let mut ended = Vec::new();
        for (member, child) in &mut self.running {
            if let Some(status) = child.try_wait()? {
                ended.push((*member, status));
            }
        }
        for (member, _) in &ended {
            self.running.remove(member);
        }
        Ok(ended)
    }

    /// One process in good order, and waits until it is gone.
    pub fn stop(&mut self, member: Member) -> Result<()> {
        self.stop_those(|other| *other == member)
    }

    /// Everything in good order: devices first, then what serves them, controllers and store last.
    pub fn stop_all(&mut self) -> Result<()> {
        let hosts = |member: &Member| matches!(member, Member::Host(_));
        let engines = |member: &Member| matches!(member, Member::Engine(_));
        self.stop_those(hosts)?;
        self.stop_those(engines)?;
        self.stop_those(|member| *member != Member::Etcd)?;
        self.stop_those(|_| true)
    }

    fn stop_those(&mut self, which: impl Fn(&Member) -> bool) -> Result<()> {
        let those: Vec<Member> = self.running.keys().filter(|m| which(m)).copied().collect();
        for member in &those {
            self.signal(*member, Signal::TERM)?;
        }
        let end = Instant::now() + END_WITHIN;
        for member in those {
            let Some(mut child) = self.running.remove(&member) else { continue };
            while child.try_wait()?.is_none() {
                if Instant::now() > end {
                    child.kill()?;
                    child.wait()?;
                    bail!("{member} did not stop in {END_WITHIN:?} and was killed");
                }
                thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// REST of the first controller.
    pub fn url(&self) -> String {
        self.url_of(1)
    }

    pub fn url_of(&self, controller: u16) -> String {
        let place = self.ports().rest(controller);
        format!("http://{}", self.binary.at(Member::Controller(controller), place))
    }

    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(&self.url())?)
    }

    /// Metrics, inventory and faults of a node's engine.
    pub fn admin(&self, number: u16) -> Result<Client> {
        let at = self.binary.at(Member::Engine(number), self.ports().admin(number));
        Ok(Client::new(&format!("http://{at}"))?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, mut child) in std::mem::take(&mut self.running) {
            // One that cannot be killed ends with this process.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
