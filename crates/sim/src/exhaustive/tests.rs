//! Small worlds in tests: a little of each, on every run.

use super::{Limits, World, deep_scenes, explore, scenes, walk};

#[test]
fn no_small_world_breaks_a_promise() {
    for scene in scenes() {
        let time = std::time::Duration::MAX;
        let limits = Limits { states: 1_500, time, is_breadth_first: false };
        let found = explore(&World::new(&scene.shape, None), limits);
        let trace = found.broken.map(|trace| (trace.words, trace.steps));
        assert_eq!(trace, None, "{}", scene.name);
    }
}

#[test]
fn walks_through_deeper_worlds_break_no_promise() {
    for scene in deep_scenes() {
        for seed in 1..=20 {
            let (_, trace) = walk(&World::new(&scene.shape, None), seed, 400);
            let trace = trace.map(|trace| (trace.words, trace.steps));
            assert_eq!(trace, None, "{}, seed {seed}", scene.name);
        }
    }
}

/// An older snapshot that counts once the replica that lacked it is lost; and a copy that fails its
/// last flush while the only healthy replica is being reached again.
#[test]
fn walks_that_broke_a_promise_once_do_not_again() {
    let once = [
        ("three replicas, everything, snapshots, slow disks", 4_753),
        ("two replicas, everything, snapshots", 34_821),
        ("two replicas, everything, snapshots", 110_382),
    ];
    for (name, seed) in once {
        let scene = deep_scenes().into_iter().find(|scene| scene.name == name).unwrap();
        let (_, trace) = walk(&World::new(&scene.shape, None), seed, 600);
        assert_eq!(trace.map(|trace| (trace.words, trace.steps)), None, "{name}, seed {seed}");
    }
}
