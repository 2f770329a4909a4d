//! Small worlds by script: one named order of events, for tests that a person can read.
//!
//! A line is a part of the words that a trace would use, or `go`, which lets everything happen that
//! happens by itself; `go but T2/A, T1/B` leaves those connections silent.

use mirror::Flaw;

use super::{
    step::Action,
    world::{Shape, World},
};

/// Everything may happen, as a script says.
pub(super) const ANY: Shape = Shape {
    sites: 2,
    blocks: 2,
    writes: 9,
    reads: 9,
    flushes: 9,
    switchovers: 9,
    target_crashes: 9,
    power_losses: 9,
    restarts: 9,
    cuts: 9,
    host_losses: 9,
    unknown_outcomes: 9,
    ticks: 9,
    ailments: 9,
    set_backs: 9,
    slow_disks: false,
    grace: false,
    both_paths: true,
    stops: 9,
    snapshots: 9,
    is_started: true,
};

/// Orders of events that are far from the beginning: what they show is judged like all else.
pub(super) const KEPT: &[(&str, &str)] = &[
    ("an old target is cut off, and read from", CUT_OFF),
    ("a disk is set back, and its regions are clear elsewhere", SET_BACK_CLEAR),
    ("a disk is set back, and every process restarted", SET_BACK_DIRTY),
    ("a disk is set back, and a claim does not come to its end", SET_BACK_FENCED),
];

/// An image of before the write; afterwards all flush it, and clear its region. The third target
/// is on the same node as what was set back.
pub(super) const SET_BACK_CLEAR: &str = "
    the host writes block 1 v1 through T1
    go
    the host flushes through T1
    go
    an image of A is taken, with
    the host writes block 0 v1 through T1
    go
    the host flushes through T1
    go
    Tick
    go
    Tick
    go
    T1 dies
    A is set back
    T2 is started
    go
    T3 is started
    go
    Tick
    go
    the host reads block 0 through T3
    go";

/// An image that is as dirty as the disk is later: only what was flushed tells them apart.
pub(super) const SET_BACK_DIRTY: &str = "
    the host writes block 0 v1 through T1
    go
    the host flushes through T1
    go
    an image of A is taken, with
    the host writes block 0 v2 through T1
    go
    the host flushes through T1
    go
    T1 dies
    A is set back
    B restarts
    T2 is started
    T3 is started
    go
    the host reads block 0 through T3
    go";

/// As before; the first target that fences what was set back dies before it has claimed anything.
pub(super) const SET_BACK_FENCED: &str = "
    the host writes block 0 v1 through T1
    go
    the host flushes through T1
    go
    an image of A is taken, with
    the host writes block 0 v2 through T1
    go
    the host flushes through T1
    go
    T1 dies
    A is set back
    B restarts
    T2 is started
    T2/A#0 hears: fence
    T2/A#0 answers
    the record, for T2, is read
    the record, for T2, says
    T2/A#0 hears: flush
    T2 dies
    T3 is started
    go
    the host reads block 0 through T3
    go";

pub(super) const CUT_OFF: &str = "
    T2 is started
    go but T2/A, T1/B
    Tick
    go but T2/A, T1/B
    the host writes block 0 v1 through T2
    go but T2/A, T1/B
    the host reads block 0 through T1
    go but T2/A, T1/B";

/// The world at the end, or where a promise broke, and what happened until then.
pub(super) fn play(shape: &Shape, flaw: Option<Flaw>, script: &str) -> (World, Vec<Action>) {
    let mut actions = Vec::new();
    let mut world = World::new(shape, flaw);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("go") {
            Some(silent) => {
                go(&mut world, silent.trim_start_matches(" but "), &mut actions);
            }
            None => act(&mut world, line, &mut actions),
        }
    }
    (world, actions)
}

fn act(world: &mut World, words: &str, actions: &mut Vec<Action>) {
    let found = world.actions().into_iter().find(|a| world.describe(*a).contains(words));
    match found {
        Some(action) => step(world, action, actions),
        // A rule that is left out may lead elsewhere; then the script shows nothing.
        None => world.break_promise(format!("`{words}` cannot happen now")),
    }
}

/// What goes on by itself ends long before; without one of the rules two targets may go on for ever
/// about one replica, and the script shows nothing.
const STEPS: usize = 4_000;

fn go(world: &mut World, silent: &str, actions: &mut Vec<Action>) {
    for _ in 0..STEPS {
        if world.broken.is_some() {
            return;
        }
        let mut progress = Vec::new();
        world.progress(&mut progress);
        let is_silent = |action: &Action| {
            let words = world.describe(*action);
            let mut names = silent.split(", ").filter(|name| !name.is_empty());
            names.any(|name| words.starts_with(name))
        };
        let Some(action) = progress.into_iter().find(|action| !is_silent(action)) else { return };
        step(world, action, actions);
    }
}

/// Everything that happens by itself.
#[cfg(test)]
pub(super) fn go_on(world: &mut World) {
    go(world, "", &mut Vec::new());
}

fn step(world: &mut World, action: Action, actions: &mut Vec<Action>) {
    if world.broken.is_none() {
        actions.push(action);
        world.apply(action);
        world.check();
    }
}
