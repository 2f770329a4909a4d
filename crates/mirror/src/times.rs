//! How long things may take, how large they are, and how fast a copy may be.

use core::ops::Range;

use block::{Extent, REGION};
use model::Millis;

/// Child timeout, grace, the store and a roster together stay below `hold`, and `hold` below two
/// thirds of a host's patience of 30 s: 5 + 2 + 5 + 5 < 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// A read completes only if every healthy child answered a request sent less than this ago.
    pub lease: Millis,
    /// What a successor waits for: the lease, and the drift of two clocks.
    pub lease_over: Millis,
    /// A child that leaves a command unanswered for this long is lost.
    pub child: Millis,
    /// A child whose connection dropped may be back within this time.
    pub grace: Millis,
    /// Between two tries to reach a child.
    pub retry: Millis,
    /// Before a child that had no space is tried again.
    pub full: Millis,
    /// A claim waits this long for replicas that do not answer.
    pub fence: Millis,
    /// A host's command is held no longer than this.
    pub hold: Millis,
    /// Regions without a write for this long are called clean.
    pub idle: Millis,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            // A successor of a killed target waits for it, and applications with it: half of the
            // second that they may see, and still thousands of round trips.
            lease: Millis(500),
            lease_over: Millis(550),
            child: Millis(5_000),
            grace: Millis(2_000),
            retry: Millis(250),
            full: Millis(30_000),
            // An application waits for it when a node falls silent: with the 2.5 s in which that is
            // noticed, and the lease, it stays below five.
            fence: Millis(1_000),
            hold: Millis(20_000),
            idle: Millis(10_000),
        }
    }
}

/// Sizes that an explored model makes small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Blocks of a region, in which dirt is tracked.
    pub region: u64,
    /// Blocks that are copied at once, under one lock.
    pub segment: u32,
}

impl Default for Geometry {
    fn default() -> Self {
        // Segments of 1 MiB: long enough to stream, short enough for a write to wait for.
        Self { region: REGION, segment: 256 }
    }
}

impl Geometry {
    /// The regions that an extent touches.
    pub(crate) fn regions(self, extent: Extent) -> Range<u64> {
        if extent.blocks == 0 {
            return 0..0;
        }
        extent.start / self.region..(extent.end() - 1) / self.region + 1
    }

    /// Of a volume of this many blocks.
    pub(crate) fn count(self, blocks: u64) -> u64 {
        blocks.div_ceil(self.region)
    }
}

/// How fast copies may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Throttle {
    /// Blocks per second, when no host is hurt by it.
    pub rate: u64,
    /// Segments under way at once.
    pub window: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        // 1 GiB/s, and four segments to hide one round trip.
        Self { rate: 262_144, window: 4 }
    }
}
