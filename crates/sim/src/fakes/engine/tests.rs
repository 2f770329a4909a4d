//! The fake behind the engine port, so that it passes the suite that the real one must pass.

use std::sync::Mutex;

use conformance::engine::{Bench, DISK_SIZE};
use model::{Inventory, Millis, NodeConfig, NodeId, Revision, Time};
use ports::EngineError;

use super::*;
use crate::{
    Oracle, Outbox, Random, disk_path,
    fakes::disk::{Disk, Disks},
    names,
};

struct Fake {
    inner: Mutex<Inner>,
}

struct Inner {
    engine: Engine,
    disks: Disks,
    lives: u32,
    now: Time,
    random: Random,
    oracle: Oracle,
    timers: Vec<(Time, Timer)>,
}

impl Inner {
    /// Half a second passes, then something is asked of the engine.
    fn act<T>(&mut self, act: impl FnOnce(&mut Engine, &mut Disks, &mut Ctx<'_>) -> T) -> T {
        self.now = self.now + Millis(500);
        let (due, later) = self.timers.drain(..).partition(|(at, _)| *at <= self.now);
        self.timers = later;
        let mut out = Outbox::default();
        let Self { engine, disks, now, random, oracle, .. } = self;
        let mut ctx = Ctx { now: *now, random, oracle, out: &mut out };
        let due: Vec<(Time, Timer)> = due;
        for (_, timer) in due.into_iter().filter(|(_, timer)| *timer != Timer::Inventory) {
            engine.wake(disks, &mut ctx, timer);
        }
        let acted = act(engine, disks, &mut ctx);
        self.timers.extend(out.timers.into_iter().map(|(span, timer)| (self.now + span, timer)));
        acted
    }
}

impl ports::Engine for Fake {
    async fn apply(&self, config: &NodeConfig) -> Result<Revision, EngineError> {
        let mut inner = self.inner.lock().unwrap();
        inner.act(|engine, disks, ctx| engine.apply(disks, ctx, config))
    }

    async fn inventory(&self) -> Result<Inventory, EngineError> {
        let mut inner = self.inner.lock().unwrap();
        Ok(inner.act(|engine, disks, _| engine.inventory(disks)))
    }

    async fn changes(&self, _: u64) -> Result<(), EngineError> {
        Ok(())
    }
}

struct FakeBench {
    fake: Fake,
}

fn start(node: NodeId, life: u32) -> Engine {
    let (mut random, mut oracle, mut out) = (Random::new(1), Oracle::new(), Outbox::default());
    let mut ctx = Ctx { now: Time(0), random: &mut random, oracle: &mut oracle, out: &mut out };
    Engine::start(node, names::instance(node.0, life), 1, &mut ctx)
}

impl FakeBench {
    fn new() -> Self {
        let disks = ["a", "b"].map(|label| (disk_path(label), Disk::blank(DISK_SIZE)));
        let inner = Inner {
            engine: start(names::node("n1"), 1),
            disks: Disks { by_path: disks.into() },
            lives: 1,
            now: Time(1_000),
            random: Random::new(1),
            oracle: Oracle::new(),
            timers: Vec::new(),
        };
        Self { fake: Fake { inner: Mutex::new(inner) } }
    }
}

impl Bench for FakeBench {
    type Engine = Fake;

    fn node(&self) -> NodeId {
        names::node("n1")
    }

    fn disks(&self) -> [String; 2] {
        ["a", "b"].map(disk_path)
    }

    fn engine(&self) -> &Fake {
        &self.fake
    }

    async fn restart(&mut self) {
        let inner = self.fake.inner.get_mut().unwrap();
        inner.lives += 1;
        inner.timers.clear();
        inner.engine = start(names::node("n1"), inner.lives);
    }

    async fn swap_and_restart(&mut self, disk: &str) {
        let inner = self.fake.inner.get_mut().unwrap();
        inner.disks.by_path.insert(disk.to_owned(), Disk::blank(DISK_SIZE));
        self.restart().await;
    }
}

#[test]
fn the_fake_engine_passes_the_suite_of_its_port() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(conformance::engine::run(async || FakeBench::new()));
}
