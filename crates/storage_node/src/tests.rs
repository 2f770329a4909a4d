//! The storage node on disks in memory: the engine port's suite, and what one slow, busy or failing
//! disk may and may not do to everything else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod conformance;
mod disks;
mod rig;
