//! The speed of thinking: `cargo xtask bench plan`.
//!
//! A healthy cluster of 300 pools is loaded into a real `Reconciler`, which takes the lead on a
//! store in memory; then single events are handed to it and timed, each over many samples. Medians
//! are printed with the 99th percentile, since machines are noisy; the goals stand beside them.
#![allow(clippy::print_stdout, reason = "a benchmark is for people to read")]

mod cluster;
mod driver;
mod measure;

use std::time::{Duration, Instant};

use model::{Liveness, Time};

use crate::{
    cluster::Shape,
    driver::Driver,
    measure::{Table, samples},
};

const POOLS: usize = 300;

fn main() {
    let mut table = Table::default();
    for volumes in [10_000, 100_000] {
        let shape = Shape { pools: POOLS, volumes, short_of_room: false };
        bench_healthy(shape, &mut table);
    }
    for volumes in [10_000, 100_000] {
        bench_waiting(Shape { pools: POOLS, volumes, short_of_room: true }, &mut table);
    }
    bench_start(&mut table);
    table.print();
}

/// One full sweep, and single changes of a healthy cluster.
fn bench_healthy(shape: Shape, table: &mut Table) {
    let size = shape.volumes;
    let mut driver = Driver::leading(&shape);
    let goal = if size <= 10_000 { Duration::from_millis(50) } else { Duration::from_secs(1) };
    let sweeps = samples(if size <= 10_000 { 21 } else { 7 }, |_| {
        let begun = Instant::now();
        let plans = plan::sweep(driver.brain.world());
        assert!(plans.iter().all(|(_, plan)| plan.step.is_none()), "a healthy cluster rests");
        begun.elapsed()
    });
    table.row(&format!("full sweep, {size} volumes"), &sweeps, goal);

    let change = Duration::from_micros(100);
    let creates = samples(500, |index| {
        let request = cluster::create(&shape, index);
        driver.timed_request(request)
    });
    table.row(&format!("create, {size} volumes"), &creates, change);

    let faults = samples(500, |index| driver.timed_fault(cluster::volume_id(index * 7)));
    table.row(&format!("replica fault, {size} volumes"), &faults, change);

    let node = cluster::node_id(17);
    let touched = driver.brain.world().index.volumes_on(node).count();
    let (elapsed, commits) = driver.kill_node(node);
    assert_eq!(driver.brain.world().liveness(node), Liveness::Dead);
    assert!(commits >= touched, "every volume with a copy there took a step");
    let per_volume = elapsed / u32::try_from(touched).expect("a few thousand volumes");
    let name = format!("node death, {size} volumes, per volume touched ({touched})");
    table.row(&name, &[per_volume], change);
}

/// A pool's space changes while every volume waits for room.
fn bench_waiting(shape: Shape, table: &mut Table) {
    let size = shape.volumes;
    let mut driver = Driver::leading(&shape);
    let waiting = plan::sweep(driver.brain.world());
    let waiting = waiting.iter().filter(|(_, plan)| !plan.waits.is_empty()).count();
    assert!(waiting >= size, "{waiting} of {size} volumes wait for room");
    let changes = samples(POOLS, |index| driver.timed_space_change(&shape, index));
    let placed = driver.brain.stats().steps.get("PlaceReplica").copied().unwrap_or(0);
    assert!(placed > 0, "freed space was given to someone");
    let name = format!("a pool's space changes, {size} volumes wait for room");
    table.row(&name, &changes, Duration::from_micros(100));
}

/// From a closed file to a world that can be planned for.
fn bench_start(table: &mut Table) {
    let shape = Shape { pools: POOLS, volumes: 10_000, short_of_room: false };
    let folder = tempfile::tempdir().expect("a temporary folder");
    driver::fill(&shape, folder.path());
    let starts = samples(5, |_| {
        let begun = Instant::now();
        let entries = driver::load(folder.path());
        let mut driver = Driver::standby();
        driver.loaded(entries, Time(1));
        assert_eq!(driver.brain.world().volumes.len(), shape.volumes);
        begun.elapsed()
    });
    let goal = Duration::from_secs(2);
    table.row("world from the embedded store, 10000 volumes", &starts, goal);
}
