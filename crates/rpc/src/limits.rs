//! Limits of the stream, with their reasons.

use std::time::Duration;

/// Bytes of one frame: a large message is cut into many, so that reading one never takes more
/// memory at once than was really sent.
pub const FRAME_MAX: usize = 256 * 1024;

/// Bytes of one message. The whole config of a node with 10,000 volumes is about 20 MiB.
pub const MESSAGE_MAX: usize = 128 * 1024 * 1024;

/// How often an engine says that it lives; a controller gives up after five of them.
pub const HEARTBEAT_PERIOD: Duration = Duration::from_millis(500);

/// Who connects must say who it is in this time.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// A membership question without an answer for this long counts as unanswered. Well below the time
/// that a target holds its acknowledgements.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(3);

/// Letters of an NVMe qualified name, as NVMe has it.
pub const NQN_LENGTH_MAX: usize = 223;

/// Engines that one controller listens to.
pub const SESSIONS_MAX: usize = 4096;

/// Messages that wait for a slow receiver before the sender waits too.
pub const BACKLOG: usize = 256;
