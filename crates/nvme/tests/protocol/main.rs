//! The two halves of the protocol against each other, and the target against scripts of bytes.
#![allow(clippy::unwrap_used, reason = "a test may stop where its world is not as it should be")]

mod broken_target;
mod corrupt;
mod linux;
mod malformed;
mod pair;
mod reserve;
mod rig;
mod script;
mod slow;
