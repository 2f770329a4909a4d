//! The controller as a machine: events in, effects out.
//!
//! No clock, no thread, no socket: `handle(now, event)` returns what must be done, and a driver (or
//! the simulator) does it. What to do is `plan`'s to decide; this crate decides when, how often, in
//! which order, and with which guard.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod limits;

mod effect;
mod event;
mod machine;

mod commit;
mod deliver;
mod detect;
mod ingest;
mod journal;
mod lead;
mod membership_rights;
mod queue;
mod register;
mod request;
mod waiting;

#[cfg(test)]
mod rig;

pub use effect::{CommitId, Effect};
pub use event::{Event, LeaseAnswer, Outcome, RequestId};
pub use machine::{Config, Periods, Reconciler, Stats};
pub use membership_rights::{
    AskRefusal, Asker, MembershipFacts, RecordFound, check_read, check_swap, is_record_of,
};
