//! The controller as a machine: events in, effects out.
//!
//! No clock, no thread, no socket: `handle(now, event)` returns what must be done, and a driver (or
//! the simulator) does it. What to do is `plan`'s to decide; this crate decides when, how often, in
//! which order, and with which guard.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod effect;
mod event;

pub use effect::{CommitId, Effect, Reply};
pub use event::{Change, Entry, Event, LeaseAnswer, Outcome, Rejection, RequestId};
