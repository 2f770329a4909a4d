//! The controller's own limits.

use model::{Millis, limits::LEASE_TTL};

/// Subjects planned in one turn: a turn stays far below a heartbeat's period.
pub const PLANS_PER_TURN: usize = 512;
/// Commits under way at once: enough to fill a group commit, few enough to keep CAS conflicts rare.
pub const COMMITS_IN_FLIGHT: usize = 64;
/// A lease is renewed three times in its life, so that one lost message does not end it.
pub const RENEW_EVERY: Millis = Millis(LEASE_TTL.0 / 3);
/// How often a standby looks whether the lead is free.
pub const CAMPAIGN_EVERY: Millis = Millis(500);
/// A config that was not answered for this long is sent again, whole.
pub const ANSWER_WITHIN: Millis = Millis(1_000);
/// Retries of a subject: doubled from the first to the last, with jitter.
pub const BACKOFF_MIN: Millis = Millis(20);
pub const BACKOFF_MAX: Millis = Millis(30_000);
/// A request that lost a race is tried again this often before the user hears of it.
pub const REQUEST_TRIES: u32 = 16;
/// Waiters woken by one piece of news: a freed gigabyte must not wake ten thousand volumes.
pub const WOKEN_AT_ONCE: usize = 8;
/// Past processes of a node that are remembered, so that a late word of theirs is not believed.
pub const PAST_INSTANCES: usize = 8;
