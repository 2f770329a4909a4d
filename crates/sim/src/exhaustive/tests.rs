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
