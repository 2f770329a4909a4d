//! The limits of the API, with their reasons.

use std::time::Duration;

/// Items of a page, if nothing else is asked for.
pub const PAGE_DEFAULT: usize = 100;

/// Items of a page at most: planning and encoding them holds the controller up for a few
/// milliseconds.
pub const PAGE_MAX: usize = 500;

/// How long a change may be waited for; a client that wants more asks again.
pub const WAIT_MAX: Duration = Duration::from_mins(10);
pub const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Between two looks at a condition that is waited for: with a thousand waiters at once the
/// controller still has most of its time.
pub const LOOK_EVERY: Duration = Duration::from_millis(25);

/// A publish or snapshot attempt is withdrawn after this time, if the user names none.
pub const ATTEMPT_DEFAULT: Duration = Duration::from_mins(1);

/// Bytes of a request's body. A volume's spec takes less than 4 KiB.
pub const BODY_MAX: usize = 256 * 1024;

/// Events sent in one go to a client that catches up.
pub const EVENTS_AT_ONCE: usize = 256;

/// Bytes of one event in the stream; one takes less than 1 KiB.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// A quiet event stream says this often that it lives.
pub const EVENTS_ALIVE: Duration = Duration::from_secs(10);

/// Steps that a preview follows: more would be told nobody.
pub const PREVIEW_STEPS_MAX: usize = 200;

/// Connections that are open when the server stops are waited for this long.
pub const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// Connections whose handshake is done and that wait to be served.
pub const HANDSHAKES_READY: usize = 16;

/// Accepting is tried again after this, when the machine has no more descriptors.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(500);

/// A server that does not take a connection in this time is not reached.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// An answer takes at most as long as the longest wait, and a little for the way.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(610);
