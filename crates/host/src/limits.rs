//! Limits of a host, with their reasons.

use std::time::Duration;

/// What an application waits for a volume that nobody serves, if nothing else is said: the time
/// after which Linux, too, gives a lost controller up.
pub const GIVE_UP: Duration = Duration::from_mins(10);

/// A volume that is taken away may finish what is under way for so long; then it is cut off.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// How often the kernel's paths are looked at: it tells of no loss by itself. Reading a few small
/// files costs nothing, and a lost path is known well before the controller needs it.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What the kernel waits for a sign of life from a target. It asks for one within half of that, so
/// that a silent target is noticed within 3 s, which is when its successor serves (a node counts as
/// dead after 2.5 s).
pub const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// How long a path of the kernel's may stay live after it was replaced: longer than the kernel
/// takes to notice that nobody answers there.
pub const REPLACED_FOR: Duration = Duration::from_secs(5);

/// How often it is told which nodes answered. A node that falls silent lives that much longer.
pub const HEARD_EVERY: Duration = Duration::from_millis(250);

/// What was heard counts no longer than this: a slow stream must not keep the dead alive.
pub const HEARD_FOR: Duration = Duration::from_millis(250);

/// After something failed that should not fail (no ring, no socket) it is tried again.
pub const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A local socket's name has 107 bytes; a volume's id and its ending take 42 of them.
pub const RUN_FOLDER_LENGTH_MAX: usize = 64;

/// Orders that may wait for the agent, which answers at once.
pub const ORDERS_MAX: usize = 64;
