//! Everything has a limit, and each limit a reason.

use crate::{Bytes, Millis};

/// One region of the dirty map is 4 MiB: a smaller volume would be all bookkeeping.
pub const VOLUME_SIZE_MIN: Bytes = Bytes::mib(4);
/// 256 TiB: the dirty map of 4 MiB regions stays at 8 MiB of bits.
pub const VOLUME_SIZE_MAX: Bytes = Bytes(1 << 48);
/// Sizes are whole pages, so that no replica has half a page at its end.
pub const VOLUME_SIZE_STEP: Bytes = Bytes(4096);
/// More copies cost every write more than they add in safety.
pub const REPLICAS_MAX: u8 = 5;
/// Lost copies stay in the layout while their replacements are built, and replacements may be lost
/// too.
pub const REPLICAS_IN_LAYOUT_MAX: usize = 2 * REPLICAS_MAX as usize + 2;
/// A Kubernetes name part; also short enough for every NVMe qualified name we make of it.
pub const NAME_LENGTH_MAX: usize = 63;
/// As in Kubernetes, whose labels users bring along.
pub const LABELS_MAX: usize = 64;
pub const LABEL_LENGTH_MAX: usize = 253;
/// Live migration needs two; a few more leave room for a cluster file system.
pub const HOSTS_PER_VOLUME_MAX: usize = 8;
/// One stripe per disk; more disks than this belong into several pools, which fail apart.
pub const DISKS_PER_POOL_MAX: usize = 16;
/// Bytes of a path, as in Linux.
pub const PATH_MAX: usize = 4096;
/// Snapshots lengthen the chain that a read may walk.
pub const SNAPSHOTS_PER_VOLUME_MAX: usize = 256;
/// Events kept in the store: a day of a busy cluster, a few MiB.
pub const EVENTS_MAX: u64 = 10_000;
/// Terms kept. The lead changes with crashes and upgrades, a few times a year; a pool that was away
/// for longer than this many changes is quarantined rather than judged.
pub const TERMS_MAX: usize = 40;

/// A publish or snapshot attempt may not be withdrawn before the failure detector could speak, and
/// not hold resources for longer than any client waits.
pub const ATTEMPT_DEADLINE_MIN: Millis = Millis::seconds(1);
pub const ATTEMPT_DEADLINE_MAX: Millis = Millis::minutes(60);

/// Heartbeats come every 0.5 s; five of them missing is death, unless someone else hears it.
pub const HEARTBEAT_EVERY: Millis = Millis(500);
pub const DEAD_AFTER: Millis = Millis(2_500);
/// A controller's lease in the store.
pub const LEASE_TTL: Millis = Millis(3_000);

/// How long a lost copy may return before it is replaced, by healthy copies left: with one left the
/// next fault loses data, so only a restart is waited for; with more, a reboot and then a repair.
pub const REBUILD_WAIT_ONE_LEFT: Millis = Millis::seconds(20);
pub const REBUILD_WAIT_TWO_LEFT: Millis = Millis::minutes(5);
pub const REBUILD_WAIT_MORE_LEFT: Millis = Millis::minutes(15);
pub const REBUILD_WAIT_MAX: Millis = Millis::minutes(24 * 60);

/// Rebuilds at once in the cluster, and into one node: the foreground keeps most of the network.
pub const REBUILDS_MAX: usize = 16;
pub const REBUILDS_PER_NODE_MAX: usize = 4;
/// Of them, kept for volumes with one copy left.
pub const REBUILDS_RESERVED_FOR_LAST_COPY: usize = 4;
pub const REBUILDS_PER_NODE_RESERVED_FOR_LAST_COPY: usize = 1;

/// An orphan is collected after this time and a second look.
pub const ORPHAN_GRACE: Millis = Millis::minutes(2);
/// A host's failed path moves a target that seems well only after this time: the host retries
/// itself.
pub const PATH_FAILED_GRACE: Millis = Millis::seconds(2);
/// Moves of one volume's target back off: 1 s, doubled up to this; forgotten after a quiet time.
pub const MOVE_BACKOFF_MIN: Millis = Millis::seconds(1);
pub const MOVE_BACKOFF_MAX: Millis = Millis::minutes(2);
/// While nobody serves, a successor is tried again at least this often.
pub const SUCCESSOR_BACKOFF_MAX: Millis = Millis::seconds(5);
pub const MOVE_QUIET: Millis = Millis::minutes(10);
/// A target that neither serves nor fails in this time is tried elsewhere.
pub const TARGET_START_MAX: Millis = Millis::seconds(15);
/// A target that does not shut down cleanly in this time is fenced instead.
pub const TARGET_STOP_MAX: Millis = Millis::seconds(30);
/// A server that makes no progress in a stage for this long is placed again.
pub const SHARE_STAGE_MAX: Millis = Millis::seconds(60);
