//! The driver's limits, with their reasons.

use std::time::Duration;

/// A store call without an answer for this long is not waited for: half a lease, so that a renewal
/// still has a second try. etcd gives up by itself after 2 s; then the outcome is unknown too.
pub const CALL_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Between two looks at what became of a commit.
pub const LOOK_AGAIN: Duration = Duration::from_millis(700);

/// Looks at a commit whose compares do not hold, before the watch has shown what came instead. In
/// an etcd that others write to, the watch may have nothing to show for long.
pub const LOOKS_MAX: u32 = 20;

/// Between two tries to list or watch a store that does not answer.
pub const FOLLOW_AGAIN: Duration = Duration::from_millis(200);

/// Between two lines of the log about it.
pub const TELL_AGAIN: Duration = Duration::from_secs(30);

/// Revisions that wait for the driver before the watch waits too.
pub const FOLLOWED_MAX: usize = 1024;

/// Users' requests that wait for the driver before they wait outside.
pub const ASKS_MAX: usize = 256;

/// Words of engines and hosts that wait for the driver before their streams wait too.
pub const HEARD_MAX: usize = 1024;

/// Commits that are under way when the controller stops are waited for this long.
pub const FINISH_WITHIN: Duration = Duration::from_secs(3);

/// Tombstones of one node that are read at once. Most nodes have none.
pub const TOMBSTONES_AT_ONCE: usize = 256;
