//! What a cluster of real processes does when it is hurt at a chosen moment.
//!
//! `cargo xtask e2e cluster` strikes at random; here each test strikes at one place.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod delete;
mod publish;
mod recover;
mod start;
mod switchover;

use std::{path::PathBuf, process::Command, sync::OnceLock, time::Duration};

use e2e::{
    application::{Application, Place, Tempo},
    asking::Asking,
    bed::{self, Bed, Store},
    binary,
};
use local::{Cluster, Member, Network, watch::until};
use model::{Bytes, Inventory, Millis};
use rest::{PublicationPut, TargetShown};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster of three nodes, alone on the machine.
struct Stage {
    cluster: Cluster,
    asking: Asking,
    _folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// Several clusters at once on few cores would wait for each other.
static ALONE: Mutex<()> = Mutex::const_new(());

fn binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| binary::built().unwrap()).clone()
}

impl Stage {
    async fn start() -> Self {
        Self::start_with(Store::Embedded, &[]).await
    }

    /// With these words to the controllers.
    async fn start_with(store: Store, words: &[&str]) -> Self {
        let alone = ALONE.lock().await;
        let bed = Bed {
            binary: binary(),
            network: Network::Loopback,
            store,
            nodes: 3,
            pool_size: Bytes::mib(512),
            controller_words: words.iter().map(ToString::to_string).collect(),
        };
        let folder = tempfile::Builder::new().prefix("hf-").tempdir().unwrap();
        let cluster = bed.make(&folder.path().join("data")).await.unwrap();
        let asking = Asking::of(&cluster).unwrap();
        Self { cluster, asking, _folder: folder, _alone: alone }
    }

    /// A volume that is attached and filled.
    async fn attached(&self, name: &str, copies: u8) -> Place {
        bed::attach(&self.cluster, &self.asking, name, copies).await.unwrap()
    }

    async fn target(&self, name: &str) -> anyhow::Result<TargetShown> {
        self.asking.get(&format!("/v1/targets/{name}")).await
    }

    fn engine(&self, node: &str) -> Member {
        self.engines().into_iter().find(|member| member.to_string() == node).unwrap()
    }

    fn engines(&self) -> Vec<Member> {
        let members = self.cluster.members().into_iter();
        members.filter(|member| matches!(member, Member::Engine(_))).collect()
    }

    fn controllers(&self) -> Vec<Member> {
        (1..=self.cluster.binary.controllers).map(Member::Controller).collect()
    }

    fn signal_engines(&self, signal: Signal) {
        for member in self.engines() {
            self.cluster.signal(member, signal).unwrap();
        }
    }

    /// Where the host tells which volumes it has.
    fn run_folder(&self) -> PathBuf {
        self.cluster.folder.path.join(Member::Host(1).to_string())
    }

    async fn inventory(&self, number: u16) -> anyhow::Result<Inventory> {
        Ok(self.cluster.admin(number)?.get("/inventory").await?)
    }

    async fn healed(&self) {
        self.asking.healed(PATIENCE).await.unwrap();
    }

    /// Runs a command of the binary; what it says, and whether it ended well.
    fn say(&self, words: &[&str]) -> (String, bool) {
        let said = Command::new(&self.cluster.binary.path).args(words).output().unwrap();
        let text = [said.stdout, said.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), said.status.success())
    }

    fn must(&self, words: &[&str]) -> String {
        let (text, well) = self.say(words);
        assert!(well, "{words:?}: {text}");
        text
    }

    /// Asks for a publication that has only so long.
    async fn publish_within(&self, name: &str, within: Millis) {
        let hosts = vec![Member::Host(1).to_string()];
        let put = PublicationPut { hosts, attempt: None, within: Some(within) };
        let path = format!("/v1/volumes/{name}/publication");
        self.asking.change(hyper::Method::PUT, &path, Some(&put)).await.unwrap();
    }

    /// Everything is right: the records, and every block.
    async fn judge(&self, places: impl IntoIterator<Item = Place>) {
        self.healed().await;
        for mut place in places {
            tokio::task::spawn_blocking(move || place.check(PATIENCE)).await.unwrap().unwrap();
        }
        bed::doctor(&self.cluster).unwrap();
    }
}

fn tempo() -> Tempo {
    Tempo { every: Duration::from_millis(2), depth: 64, seed: 1, within: None }
}
