//! Nothing gets stuck: from wherever a world is, once nothing more goes wrong, it becomes whole.
//!
//! Exploring alone shows only that no state is bad. A target that waits for ever is in no bad
//! state, so from time to time a state is left alone and looked at again when all is quiet.

use mirror::{Phase, Target};

use super::{
    disk::Version,
    scenes::QUIET,
    world::{Shape, World, replica_id},
};

/// Enough time for every lease, grace and look of a small world.
const ROUNDS: u8 = 24;
/// What goes on by itself between two ticks ends long before.
const STEPS: usize = 4_000;
/// How often a control plane may have to start another target in the place of one that gave up.
const STARTS: usize = 2;

impl World {
    /// What is still missing when nothing more went wrong for long enough.
    pub(super) fn missing_at_rest(&self) -> Option<String> {
        // A disk that fails goes on failing, and a volume that was stopped stays so.
        if self.is_blind
            || self.host.has_excuse
            || self.targets.iter().any(|target| !target.item.serve)
        {
            return None;
        }
        let mut world = self.clone();
        world.left.calm();
        let mut starts = 0;
        for _ in 0..ROUNDS {
            if world.has_given_up() && starts < STARTS {
                starts += 1;
                world.start_target();
            }
            if !world.play_out() {
                return Some("left alone, it never rests".into());
            }
            world.check();
            if let Some(words) = &world.broken {
                return Some(format!("left alone: {words}"));
            }
            // Whole: nothing is missing.
            world.missing()?;
            world.apply(super::step::Action::Tick);
        }
        world.missing().map(|words| format!("left alone, {words}"))
    }

    fn newest(&self) -> Option<&Target<Version>> {
        self.targets.last()?.machine.as_ref()
    }

    fn has_given_up(&self) -> bool {
        self.newest()
            .is_none_or(|machine| matches!(machine.phase(), Phase::Fenced | Phase::Failed(_)))
    }

    /// Everything that happens by itself; false if that has no end. By turns, so that those who
    /// always have something to say do not silence the others.
    fn play_out(&mut self) -> bool {
        for step in 0..STEPS {
            let mut actions = Vec::new();
            self.progress(&mut actions);
            if actions.is_empty() {
                return true;
            }
            self.apply(actions[step % actions.len()]);
        }
        false
    }

    fn missing(&self) -> Option<String> {
        let newest = self.targets.len() - 1;
        let Some(machine) = self.newest() else { return Some("no target lives".into()) };
        if !machine.is_serving() {
            return Some(format!("the target is {:?} for ever", machine.phase()));
        }
        if self.host.asked.iter().any(|asked| asked.target == newest) {
            return Some("a host waits for ever".into());
        }
        let is_healthy = |site: usize| self.record.is_healthy(replica_id(site));
        if !(0..self.sites.len()).all(is_healthy) {
            return Some("a replica is not healthy for ever".into());
        }
        None
    }
}

impl Shape {
    /// Nothing more happens but time.
    fn calm(&mut self) {
        *self = Self {
            sites: self.sites,
            blocks: self.blocks,
            writes: 0,
            ticks: ROUNDS,
            slow_disks: self.slow_disks,
            grace: self.grace,
            both_paths: self.both_paths,
            ..QUIET
        };
    }
}
