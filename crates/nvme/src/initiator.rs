//! The initiator's half: a session with one controller over an admin queue and I/O queues.
//!
//! ```text
//!  submit(op) ─▶ Session ─▶ Queue ─▶ Out::Send          bytes ─▶ Queue ─▶ Session ─▶ Out::Done
//! ```

mod attach;
mod command;
mod event;
mod queue;
mod session;

pub use attach::Attached;
pub use session::{Config, Event, Out, Reason, Session};
