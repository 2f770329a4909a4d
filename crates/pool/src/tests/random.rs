//! Long scripts drawn by chance, with crashes in between.

use alloc::vec::Vec;

use block::Extent;

use super::{
    model::{Play, Step},
    world::{Cut, SMALL, World},
};
use crate::Crash;

/// What the script knows of its own past.
#[derive(Clone, Default)]
struct Author {
    /// Replicas with their blocks.
    replicas: Vec<(u128, u64)>,
    snapshots: Vec<(u128, u128)>,
    named: u128,
    epoch: u64,
}

impl Author {
    /// After a crash: only what is there.
    fn look(&mut self, play: &Play) {
        let pool = &play.world.pool;
        self.replicas =
            pool.replicas().map(|state| (state.replica.0.as_u128(), state.blocks)).collect();
        self.snapshots = pool
            .snapshots()
            .map(|state| (state.snapshot.0.as_u128(), state.replica.0.as_u128()))
            .collect();
    }

    fn name(&mut self) -> u128 {
        self.named += 1;
        self.named
    }

    /// Something that changes who owns what.
    fn management(&mut self, play: &mut Play) -> Step {
        let draw = play.world.disk.draw();
        let pick = |len: usize| usize::try_from(draw >> 8).unwrap_or(0) % len.max(1);
        let replica = self.replicas.get(pick(self.replicas.len())).copied();
        let snapshot = self.snapshots.get(pick(self.snapshots.len())).copied();
        match (draw % 10, replica, snapshot) {
            (0 | 1, Some((of, _)), _) if self.snapshots.len() < 4 => Step::Snap(self.name(), of),
            (2, _, Some((of, _))) if self.replicas.len() < 4 => Step::Clone(self.name(), of, 700),
            (3 | 4, _, Some((id, of))) => Step::DeleteSnap(id, of),
            (5, Some((id, _)), _) if self.replicas.len() > 2 => Step::Delete(id),
            (6, Some((id, blocks)), _) if blocks < 650 => Step::Resize(id, blocks + 37),
            (7, Some((id, _)), _) => {
                self.epoch += 1;
                Step::Note(id, self.epoch)
            }
            (8, ..) => Step::Checkpoint,
            (9, ..) => Step::Settle,
            _ if self.replicas.len() < 3 => Step::Create(self.name(), 300 + draw % 300),
            _ => Step::Flush,
        }
    }

    /// Reads and writes side by side, on blocks of their own.
    fn data(&self, play: &mut Play) -> Vec<Step> {
        let mut steps = Vec::new();
        for (id, blocks) in &self.replicas {
            let lanes = 3;
            for lane in 0..lanes {
                let draw = play.world.disk.draw();
                let width = blocks / lanes;
                let start = lane * width + draw % width;
                let room = (lane + 1) * width - start;
                let count = u32::try_from((1 + (draw >> 20) % 40).min(room)).unwrap_or(1);
                let extent = Extent::new(start, count);
                steps.push(match (draw >> 40) % 8 {
                    0 => Step::Zero(*id, extent),
                    1 => Step::Fua(*id, extent),
                    2 => Step::Flush,
                    _ => Step::Write(*id, extent),
                });
            }
        }
        steps
    }
}

fn together(play: &mut Play, steps: Vec<Step>) -> Result<(), Cut> {
    let mut begun: Vec<_> = steps.into_iter().filter_map(|step| play.begin(step)).collect();
    while !begun.is_empty() {
        let goes_on = play.world.step()?;
        begun.retain(|(id, asked)| {
            let answer = play.world.answer(*id);
            if let Some(result) = &answer {
                play.model.answered(asked.clone(), result);
            }
            answer.is_none()
        });
        assert!(goes_on || begun.is_empty(), "the pool stands still");
    }
    Ok(())
}

/// A thin snapshot or clone needs no space; a refused one is simply not there.
fn act(play: &mut Play, author: &mut Author, rounds: u64) -> Result<(), Cut> {
    for _ in 0..rounds {
        let step = author.management(play);
        play.step(step)?;
        author.look(play);
        let steps = author.data(play);
        together(play, steps)?;
        if play.world.disk.draw().is_multiple_of(6) {
            play.model.check_live(&mut play.world);
            play.world.check_accounts();
        }
    }
    Ok(())
}

fn life(seed: u64, discard: bool) {
    let mut play = Play::new(World::new(2600, SMALL, seed));
    play.world.discard = discard;
    let mut author = Author::default();
    for generation in 0..4u64 {
        let limit = 1 + play.world.disk.draw() % 600;
        play.world.cut_at = play.world.ios + limit;
        let finished = act(&mut play, &mut author, 30);
        let crash =
            if (seed + generation).is_multiple_of(3) { Crash::Process } else { Crash::Power };
        play.crash(crash);
        author.look(&play);
        assert!(finished == Err(Cut) || finished == Ok(()));
    }
    play.step(Step::Settle).expect("no cut");
    play.step(Step::Export).expect("no cut");
    let used = play.world.pool.stats().used;
    let report = super::world::fsck(&mut play.world.disk).expect("an exported pool is sound");
    assert!(report.is_clean && report.used == used, "{report:?} against {used:?}");
}

#[test]
fn long_lives_with_crashes_keep_every_promise() {
    for seed in 1..13 {
        life(seed, seed % 4 == 0);
    }
}

/// For a longer look: `POOL_SEEDS=1000 cargo test -p pool many_lives`.
#[test]
fn many_lives_if_asked_for() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("POOL_FIRST").unwrap_or(100u64);
    for seed in first..first + number("POOL_SEEDS").unwrap_or(0) {
        std::println!("seed {seed}");
        life(seed, seed % 4 == 0);
    }
}
