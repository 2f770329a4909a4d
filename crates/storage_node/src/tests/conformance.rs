//! The engine port on the storage node with disks in memory: the suite that the real engine passes.

use alloc::{boxed::Box, string::String};
use core::time::Duration;
use std::sync::Mutex;

use conformance::engine::{Bench, DISK_SIZE};
use model::{EngineError, InstanceId, Inventory, NodeConfig, NodeId, Revision};
use ports::Engine;

use super::rig::{INSTANCE, NODE, TestNode};

const DISKS: [&str; 2] = ["/disk/one", "/disk/two"];
const BLOCKS: u64 = DISK_SIZE.0 / 4096 * 5 / 4;

/// A node as an engine: time passes while somebody waits.
struct InMemory(Box<Mutex<TestNode>>);

struct Machine {
    engine: Option<InMemory>,
    lives: u128,
}

const STEP: Duration = Duration::from_millis(20);

impl Engine for InMemory {
    async fn apply(&self, config: &NodeConfig) -> Result<Revision, EngineError> {
        let mut node = self.0.lock().unwrap();
        let ticket = node.apply(config.clone());
        loop {
            if let Some(result) = node.applied.remove(&ticket) {
                return result;
            }
            node.pass(STEP);
        }
    }

    async fn inventory(&self) -> Result<Inventory, EngineError> {
        let mut node = self.0.lock().unwrap();
        let ticket = node.request_inventory();
        loop {
            if let Some(inventory) = node.inventories.remove(&ticket) {
                return Ok(inventory);
            }
            node.pass(STEP);
        }
    }

    async fn changes(&self, since: u64) -> Result<(), EngineError> {
        let mut node = self.0.lock().unwrap();
        // As long as a real one would be waited for.
        for _ in 0..1_000 {
            if node.outdated >= since {
                return Ok(());
            }
            node.pass(STEP);
        }
        Err(EngineError::Unreachable { reason: "nothing changed in 20 s".into() })
    }
}

impl Machine {
    fn start(&mut self, disks: TestNode) {
        self.lives += 1;
        let instance = InstanceId::from_u128(INSTANCE.0.as_u128() * (self.lives + 1));
        let mut node = TestNode::on(disks.disks, instance);
        for path in DISKS {
            let bytes = node.disks[path].disk.bytes();
            let (head, tail) = (&bytes[..pool::PROBED], &bytes[bytes.len() - pool::PROBED..]);
            if let Some(pool::Carries::Pool(id)) = pool::probe(head, tail) {
                node.node.look_at(id, path.into());
            }
        }
        node.settle();
        self.engine = Some(InMemory(Box::new(Mutex::new(node))));
    }

    /// What the process leaves behind when it dies.
    fn kill(&mut self) -> TestNode {
        let mut node = self.engine.take().unwrap().0.into_inner().unwrap();
        node.disks.values_mut().for_each(|disk| disk.disk.crash(pool::Crash::Process));
        node
    }
}

impl Bench for Machine {
    type Engine = InMemory;

    fn node(&self) -> NodeId {
        NODE
    }

    fn disks(&self) -> [String; 2] {
        DISKS.map(Into::into)
    }

    fn engine(&self) -> &InMemory {
        self.engine.as_ref().unwrap()
    }

    async fn restart(&mut self) {
        let left = self.kill();
        self.start(left);
    }

    async fn swap_and_restart(&mut self, disk: &str) {
        let mut left = self.kill();
        left.disks.get_mut(disk).unwrap().disk = pool::SimDisk::new(BLOCKS, 9);
        self.start(left);
    }
}

/// RS-1, RS-2, ST-4.
#[tokio::test]
async fn the_storage_node_keeps_every_rule_of_the_engine_port() {
    conformance::engine::run(async || {
        let mut machine = Machine { engine: None, lives: 0 };
        machine.start(TestNode::new(BLOCKS, &DISKS));
        machine
    })
    .await;
}
