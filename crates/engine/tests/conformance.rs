//! The engine port on the real engine: the suite that the simulator's fake passes, too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use conformance::engine::{Bench, DISK_SIZE};
use engine::{Engine, Handle, Settings, start};
use model::{ConfigHead, Era, InstanceId, NodeConfig, NodeId, Revision, Scope};
use ports::Engine as _;
use tokio::time::timeout;

const NODE: NodeId = NodeId::from_u128(1);

struct Machine {
    folder: tempfile::TempDir,
    engine: Option<Engine>,
}

impl Machine {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut machine = Self { folder, engine: None };
        for path in machine.paths() {
            blank(&path);
        }
        machine.start().await;
        machine
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["one", "two"].map(|name| self.folder.path().join(name))
    }

    async fn start(&mut self) {
        let settings = Settings { disks: self.paths().into(), ..Settings::new(NODE, "a".into()) };
        self.engine = Some(start(settings, Vec::new()).await.unwrap());
    }
}

fn blank(path: &std::path::Path) {
    std::fs::File::create(path).unwrap().set_len(DISK_SIZE.0 * 5 / 4).unwrap();
}

impl Bench for Machine {
    type Engine = Handle;

    fn node(&self) -> NodeId {
        NODE
    }

    fn disks(&self) -> [String; 2] {
        self.paths().map(|path| path.to_str().unwrap().into())
    }

    fn engine(&self) -> &Handle {
        &self.engine.as_ref().unwrap().handle
    }

    async fn restart(&mut self) {
        self.engine.take().unwrap().abandon().await;
        self.start().await;
    }

    async fn swap_and_restart(&mut self, disk: &str) {
        self.engine.take().unwrap().abandon().await;
        std::fs::remove_file(disk).unwrap();
        blank(std::path::Path::new(disk));
        self.start().await;
    }
}

/// RS-1, RS-2, ST-4.
#[tokio::test]
async fn the_real_engine_keeps_every_rule_of_the_port() {
    conformance::engine::run(Machine::new).await;
}

/// Each controller has an inventory of its own, and hears that it is out of date, also when another
/// one is taken between the change and the word of it.
#[tokio::test]
async fn nobody_misses_a_change_because_another_took_an_inventory() {
    let machine = Machine::new().await;
    let engine = machine.engine();
    let head = ConfigHead {
        era: Era::from_u128(1),
        term: InstanceId::from_u128(2),
        instance: engine.inventory().await.unwrap().instance,
        generation: Revision(2),
        scope: Scope::Whole,
        former: Vec::new(),
    };
    // Often, for the two must come to the engine within one turn of its.
    for generation in 2..502 {
        let head = ConfigHead { generation: Revision(generation), ..head.clone() };
        let config = NodeConfig { head, parts: BTreeMap::new() };
        let seen = engine.inventory().await.unwrap();
        let (applied, _) = tokio::join!(engine.apply(&config), engine.inventory());
        applied.unwrap();
        let told = timeout(Duration::from_secs(5), engine.changes(seen.sequence)).await;
        told.expect("nobody says that it is out of date").unwrap();
    }
}
