//! A crash at every I/O of short scripts.

use alloc::vec::Vec;

use block::Extent;

use super::{
    model::{
        Play,
        Step::{self, *},
    },
    world::{Cut, SMALL, World},
};
use crate::{Crash, Flaws};

const fn at(start: u64, blocks: u32) -> Extent {
    Extent::new(start, blocks)
}

/// Each with what it is about.
pub const SCRIPTS: &[(&str, &[Step])] = &[
    (
        "write and flush",
        &[
            Create(1, 200),
            Write(1, at(0, 3)),
            Write(1, at(60, 10)),
            Flush,
            Write(1, at(1, 1)),
            Write(1, at(100, 2)),
            Flush,
            Write(1, at(0, 70)),
            Fua(1, at(150, 1)),
            Fua(1, at(60, 3)),
            Write(1, at(199, 1)),
        ],
    ),
    (
        "overwrite before the first flush",
        &[
            Create(1, 64),
            Write(1, at(0, 2)),
            Write(1, at(0, 2)),
            Write(1, at(1, 2)),
            Flush,
            Write(1, at(0, 3)),
            Write(1, at(0, 3)),
            Flush,
        ],
    ),
    (
        "zero",
        &[
            Create(1, 200),
            Write(1, at(0, 130)),
            Flush,
            Zero(1, at(10, 60)),
            Write(1, at(12, 2)),
            Flush,
            Zero(1, at(0, 200)),
            Write(1, at(64, 4)),
            Zero(1, at(65, 1)),
            Flush,
            Write(1, at(65, 1)),
        ],
    ),
    (
        "zero before the first flush",
        &[
            Create(1, 64),
            Write(1, at(0, 4)),
            Zero(1, at(0, 4)),
            Write(1, at(2, 4)),
            Zero(1, at(3, 1)),
            Write(1, at(3, 1)),
            Flush,
        ],
    ),
    (
        "snapshot and clone",
        &[
            Create(1, 130),
            Write(1, at(0, 100)),
            Snap(5, 1),
            Write(1, at(20, 4)),
            Zero(1, at(60, 20)),
            Clone(2, 5, 200),
            Write(2, at(20, 2)),
            Flush,
            Write(2, at(180, 2)),
            Snap(6, 1),
            Write(1, at(62, 2)),
            Delete(2),
            Flush,
        ],
    ),
    (
        "merge",
        &[
            Create(1, 200),
            Write(1, at(0, 140)),
            Snap(5, 1),
            Write(1, at(20, 4)),
            Zero(1, at(60, 10)),
            Write(1, at(62, 1)),
            DeleteSnap(5, 1),
            Write(1, at(3, 1)),
            Settle,
            Flush,
            Settle,
            Write(1, at(150, 1)),
        ],
    ),
    (
        "merge in the middle of a chain",
        &[
            Create(1, 130),
            Write(1, at(0, 70)),
            Snap(5, 1),
            Write(1, at(2, 3)),
            Zero(1, at(10, 5)),
            Snap(6, 1),
            Write(1, at(4, 3)),
            Zero(1, at(64, 2)),
            DeleteSnap(6, 1),
            Settle,
            Clone(2, 5, 130),
            DeleteSnap(5, 1),
            Write(2, at(0, 3)),
            Settle,
            Delete(1),
            Settle,
            Flush,
        ],
    ),
    (
        "merge under a page that is not durable",
        &[
            Create(1, 64),
            Write(1, at(0, 4)),
            Snap(5, 1),
            Write(1, at(0, 2)),
            DeleteSnap(5, 1),
            Settle,
            Write(1, at(1, 2)),
        ],
    ),
    (
        "an aborted snapshot",
        &[
            Create(1, 64),
            Write(1, at(0, 4)),
            Snap(5, 1),
            Abort(5, 1),
            Abort(6, 1),
            Settle,
            Write(1, at(3, 2)),
            Flush,
        ],
    ),
    (
        "delete and reuse",
        &[
            Create(1, 320),
            Write(1, at(0, 320)),
            Flush,
            Delete(1),
            Create(2, 700),
            Write(2, at(0, 300)),
            Write(2, at(300, 300)),
            Flush,
            Zero(2, at(0, 300)),
            Create(3, 320),
            Write(3, at(0, 320)),
            Flush,
        ],
    ),
    (
        "zero and reuse",
        &[
            Create(1, 320),
            Create(2, 700),
            Write(1, at(0, 320)),
            Write(2, at(0, 300)),
            Flush,
            Zero(1, at(0, 320)),
            Write(2, at(300, 200)),
            Write(1, at(100, 60)),
            Flush,
        ],
    ),
    (
        "checkpoint",
        &[
            Create(1, 200),
            Write(1, at(0, 5)),
            Checkpoint,
            Write(1, at(4, 3)),
            Zero(1, at(0, 2)),
            Checkpoint,
            Checkpoint,
            Write(1, at(100, 3)),
            Note(1, 4),
        ],
    ),
    ("notes", &[Create(1, 64), Note(1, 1), Write(1, at(0, 1)), Note(1, 2), Checkpoint, Note(1, 3)]),
    (
        "grow and resize",
        &[
            Create(1, 64),
            Write(1, at(0, 4)),
            Resize(1, 300),
            Write(1, at(250, 4)),
            Grow(1400),
            Write(1, at(60, 100)),
            Flush,
            Thick(2, 640),
            Write(2, at(0, 64)),
            Flush,
        ],
    ),
    ("export", &[Create(1, 64), Write(1, at(0, 4)), Export]),
];

/// What comes after a crash must work, too.
const AFTER: &[Step] = &[Create(9, 100), Write(9, at(0, 70)), Flush, Zero(9, at(3, 3)), Settle];

pub fn world(seed: u64, flaws: Flaws) -> Play {
    Play::new(World::flawed(1024, SMALL, seed, flaws))
}

/// Runs the script with the power cut at every I/O; the number of I/Os it has.
pub fn everywhere(script: &[Step], fresh: &Play, seed: u64) -> u64 {
    for cut in 1.. {
        let mut play = fresh.clone();
        play.world.disk.reseed(seed ^ cut);
        play.world.cut_at = cut;
        if play.run(script) == Ok(()) {
            return cut;
        }
        for (turn, crash) in (0..).zip([Crash::Power, Crash::Process, Crash::Power]) {
            let mut after = play.clone();
            after.world.disk.reseed(cut << 16 | turn << 8 | seed);
            after.crash(crash);
            // What replay found is what it finds again.
            after.crash(Crash::Power);
            after.run(AFTER).expect("no cut after the crash");
            after.model.check_live(&mut after.world);
        }
    }
    0
}

#[test]
fn a_crash_at_any_io_of_a_script_loses_nothing_that_was_promised() {
    for (name, script) in SCRIPTS {
        let ios = everywhere(script, &world(1, Flaws::default()), 1);
        assert!(ios > 10, "{name} has I/O");
    }
}

#[test]
fn a_crash_at_any_io_of_an_import_is_just_another_crash() {
    for (seed, (_, script)) in (0..).zip(SCRIPTS.iter().skip(2).take(4)) {
        let mut play = world(seed, Flaws::default());
        let uncut = play.run(script);
        assert_eq!(uncut, Ok(()));
        for cut in 1.. {
            let mut again = play.clone();
            again.world.disk.reseed(cut);
            again.world.disk.crash(Crash::Power);
            let before = again.world.ios;
            again.world.cut_at = before + cut;
            let is_open = again.world.try_open();
            again.crash(Crash::Power);
            if is_open {
                break;
            }
        }
    }
}

#[test]
fn writes_side_by_side_and_a_crash_at_any_io() {
    for seed in 0..3 {
        for cut in 1.. {
            let mut play = world(seed, Flaws::default());
            play.step(Create(1, 400)).unwrap();
            play.world.disk.reseed(seed << 32 | cut);
            play.world.cut_at = play.world.ios + cut;
            let finished = side_by_side(&mut play);
            let crash = if cut % 3 == 0 { Crash::Process } else { Crash::Power };
            play.crash(crash);
            if finished == Ok(()) {
                break;
            }
        }
    }
}

#[test]
fn a_page_overwritten_while_it_is_flushed_is_never_lost() {
    for (late, seed) in (0..8).flat_map(|late| (0..6).map(move |seed| (late, seed))) {
        for cut in 1.. {
            let mut play = world(seed, Flaws::default());
            play.run(&[Create(1, 64), Write(1, at(0, 4))]).unwrap();
            play.world.disk.reseed(seed << 32 | cut << 8 | late);
            play.world.cut_at = play.world.ios + cut;
            let finished = overwrite_late(&mut play, late);
            let crash = if seed % 2 == 0 { Crash::Process } else { Crash::Power };
            play.crash(crash);
            if finished == Ok(()) {
                break;
            }
        }
    }
}

/// A flush, and some completions later writes of the same pages.
fn overwrite_late(play: &mut Play, late: u64) -> Result<(), Cut> {
    let flush = play.begin(Flush);
    for _ in 0..late {
        play.world.step()?;
    }
    let write = play.begin(Write(1, at(1, 2)));
    let other = play.begin(Fua(1, at(3, 1)));
    for (id, asked) in [write, other, flush].into_iter().flatten() {
        let result = play.world.wait(id)?;
        play.model.answered(asked, &result);
    }
    Ok(())
}

#[test]
fn a_page_overwritten_while_it_is_merged_is_never_lost() {
    for (late, seed) in (0..14).flat_map(|late| (0..4).map(move |seed| (late, seed))) {
        for cut in 1.. {
            let mut play = world(seed, Flaws::default());
            let before = [Create(1, 64), Write(1, at(0, 8)), Snap(5, 1), Write(1, at(6, 3)), Flush];
            play.run(&before).unwrap();
            play.world.disk.reseed(seed << 32 | cut << 8 | late);
            play.world.cut_at = play.world.ios + cut;
            let finished =
                play.step(DeleteSnap(5, 1)).and_then(|()| overwrite_late(&mut play, late));
            let crash = if seed % 2 == 0 { Crash::Process } else { Crash::Power };
            play.crash(crash);
            if finished == Ok(()) {
                break;
            }
        }
    }
}

/// Eight at a time, on blocks of their own, with flushes among them.
fn side_by_side(play: &mut Play) -> Result<(), Cut> {
    for round in 0..3u64 {
        let mut begun = Vec::new();
        for lane in 0..8u64 {
            let extent = at(lane * 48 + round * 3, 5);
            let step = match (lane + round) % 5 {
                0 => Zero(1, extent),
                1 => Fua(1, extent),
                _ => Write(1, extent),
            };
            begun.extend(play.begin(step));
            if lane == 3 {
                begun.extend(play.begin(Flush));
            }
        }
        while !begun.is_empty() {
            let goes_on = play.world.step()?;
            begun.retain(|(id, asked)| match play.world.answer(*id) {
                Some(result) => {
                    play.model.answered(asked.clone(), &result);
                    false
                }
                None => true,
            });
            assert!(goes_on || begun.is_empty(), "the pool stands still");
        }
    }
    Ok(())
}
