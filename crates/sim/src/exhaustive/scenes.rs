//! The small worlds: each lets a few things happen, and together they let everything happen.

use super::world::Shape;

#[derive(Clone, Debug)]
pub struct Scene {
    pub name: &'static str,
    pub shape: Shape,
}

/// One write, and nothing else happens.
pub(super) const QUIET: Shape = Shape {
    sites: 2,
    blocks: 1,
    writes: 1,
    reads: 0,
    flushes: 0,
    switchovers: 0,
    target_crashes: 0,
    power_losses: 0,
    restarts: 0,
    cuts: 0,
    host_losses: 0,
    unknown_outcomes: 0,
    ticks: 0,
    ailments: 0,
    set_backs: 0,
    slow_disks: false,
    grace: false,
    both_paths: false,
    stops: 0,
    snapshots: 0,
    is_started: true,
};

const fn scene(name: &'static str, shape: Shape) -> Scene {
    Scene { name, shape }
}

#[rustfmt::skip]
pub fn scenes() -> Vec<Scene> {
    let dies = Shape { target_crashes: 1, switchovers: 1, ticks: 1, ..QUIET };
    let moves = Shape { switchovers: 1, ticks: 1, both_paths: true, ..QUIET };
    let mut scenes = vec![
        scene("a start, and nothing goes wrong",
            Shape { writes: 1, reads: 1, flushes: 1, is_started: false, ..QUIET }),
        scene("two blocks, and idle regions are cleaned",
            Shape { blocks: 2, writes: 2, flushes: 1, ticks: 2, ..QUIET }),
        scene("a connection is cut",
            Shape { writes: 2, reads: 1, flushes: 1, cuts: 1, ..QUIET }),
        scene("a connection is cut, and time passes",
            Shape { writes: 2, cuts: 1, ticks: 1, ..QUIET }),
        scene("a replica restarts",
            Shape { writes: 2, reads: 1, flushes: 1, restarts: 1, ..QUIET }),
        scene("a replica loses power",
            Shape { writes: 2, reads: 1, flushes: 1, power_losses: 1, ..QUIET }),
        scene("two replicas lose power",
            Shape { writes: 1, flushes: 1, power_losses: 2, ..QUIET }),
        scene("another target takes over, a write and a read",
            Shape { writes: 1, reads: 1, ..moves.clone() }),
        scene("another target takes over",
            Shape { writes: 2, reads: 1, ..moves.clone() }),
        scene("another target takes over, a flush",
            Shape { writes: 1, reads: 1, flushes: 1, ..moves.clone() }),
        scene("two more targets take over",
            Shape { writes: 1, reads: 1, switchovers: 2, ..moves }),
        scene("the target dies",
            Shape { writes: 2, reads: 1, ..dies.clone() }),
        scene("the target dies, a flush",
            Shape { writes: 1, reads: 1, flushes: 1, ..dies.clone() }),
        scene("the target dies, a replica loses power",
            Shape { writes: 1, reads: 1, flushes: 1, power_losses: 1, ..dies.clone() }),
        scene("the target dies, a connection is cut",
            Shape { writes: 1, reads: 1, cuts: 1, ..dies.clone() }),
        scene("the target dies, slow disks",
            Shape { writes: 2, slow_disks: true, ..dies.clone() }),
        scene("a cut, and the store's answer is lost",
            Shape { writes: 1, reads: 1, cuts: 1, unknown_outcomes: 1, ..QUIET }),
        scene("the target dies, and a commit of its arrives late",
            Shape { writes: 1, cuts: 1, unknown_outcomes: 1, ..dies.clone() }),
        scene("a cut within the grace, slow disks",
            Shape { writes: 2, reads: 1, cuts: 1, ticks: 1, slow_disks: true, grace: true,
                    ..QUIET }),
        scene("the host's connection is lost",
            Shape { writes: 2, reads: 1, host_losses: 1, cuts: 1, slow_disks: true, ..QUIET }),
        scene("a clean stop, a successor",
            Shape { writes: 1, reads: 1, stops: 1, switchovers: 1, ticks: 1, ..QUIET }),
        scene("a write and a flush pass each other, a replica loses power",
            Shape { flushes: 1, power_losses: 1, slow_disks: true, ..QUIET }),
        scene("a write and a flush pass each other, and time passes",
            Shape { flushes: 1, power_losses: 1, slow_disks: true, ticks: 1, ..QUIET }),
        scene("two writes and a flush pass each other, and time passes",
            Shape { writes: 2, flushes: 1, power_losses: 1, slow_disks: true, ticks: 1, ..QUIET }),
        scene("a replica is admitted while the target dies",
            Shape { cuts: 1, target_crashes: 1, switchovers: 1, ..QUIET }),
        scene("a snapshot, a connection is cut",
            Shape { writes: 2, snapshots: 1, cuts: 1, ..QUIET }),
        scene("a snapshot, a replica loses power",
            Shape { writes: 2, snapshots: 1, power_losses: 1, ..QUIET }),
        scene("a snapshot, another target takes over",
            Shape { writes: 1, snapshots: 1, switchovers: 1, ticks: 1, ..QUIET }),
        scene("two snapshots, a replica restarts",
            Shape { writes: 1, snapshots: 2, restarts: 1, ..QUIET }),
    ];
    scenes.extend(scenes_of_images(&dies));
    scenes
}

/// A disk is set back to an image of itself.
#[rustfmt::skip]
fn scenes_of_images(dies: &Shape) -> Vec<Scene> {
    vec![
        scene("a disk is set back, another target takes over",
            Shape { writes: 2, flushes: 2, set_backs: 1, switchovers: 1, ticks: 1, ..QUIET }),
        scene("a disk is set back, the target dies",
            Shape { writes: 2, reads: 1, flushes: 1, set_backs: 1, ..dies.clone() }),
        scene("a disk is set back, regions were cleared, the target dies",
            Shape { writes: 2, flushes: 1, set_backs: 1, ticks: 3, ..dies.clone() }),
        scene("a disk is set back, two targets take over",
            Shape { writes: 2, flushes: 1, set_backs: 1, switchovers: 2, ..QUIET }),
        scene("a disk is set back, a clean stop",
            Shape { writes: 2, flushes: 1, set_backs: 1, stops: 1, switchovers: 1, ..QUIET }),
        scene("a disk is set back, a connection is cut",
            Shape { writes: 2, flushes: 1, set_backs: 1, cuts: 1, ..QUIET }),
        scene("a disk is set back, a replica loses power, the target dies",
            Shape { writes: 2, flushes: 1, set_backs: 1, power_losses: 1, ..dies.clone() }),
        scene("a disk is set back, a snapshot",
            Shape { writes: 2, flushes: 1, set_backs: 1, snapshots: 1, switchovers: 1, ..QUIET }),
    ]
}

/// Worlds too large to be explored whole.
#[rustfmt::skip]
pub fn deep_scenes() -> Vec<Scene> {
    let deep = Shape {
        blocks: 2, writes: 6, reads: 6, flushes: 3, switchovers: 2, target_crashes: 2,
        power_losses: 2, restarts: 1, cuts: 3, host_losses: 1, unknown_outcomes: 1, ailments: 1,
        set_backs: 1, ticks: 4,
        ..QUIET
    };
    vec![
        scene("two replicas, everything", deep.clone()),
        scene("two replicas, everything, slow disks",
            Shape { slow_disks: true, grace: true, both_paths: true, ..deep.clone() }),
        scene("three replicas, everything", Shape { sites: 3, both_paths: true, ..deep.clone() }),
        scene("three replicas, everything, slow disks",
            Shape { sites: 3, slow_disks: true, ..deep.clone() }),
        scene("two replicas, everything, snapshots",
            Shape { snapshots: 3, ..deep.clone() }),
        scene("three replicas, everything, snapshots, slow disks",
            Shape { sites: 3, snapshots: 3, slow_disks: true, grace: true, ..deep }),
    ]
}
