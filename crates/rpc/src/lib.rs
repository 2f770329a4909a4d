//! The stream between a controller and the engines and hosts: `model` types in a thin envelope.
//!
//! An engine, or a host's agent, dials every controller that it knows, says who it is, and from
//! then on each side sends what it has to say, in order. There is no request id but for membership
//! records: a config's generation and an inventory's sequence tell what belongs to what, and a lost
//! connection is followed by everything anew.
//!
//! Versions mix: a field that one side does not know is passed over, a message that it does not
//! know is named in its log and passed over. What a message must not be understood without is a
//! new protocol, which the greeting names; two sides without a common one part, with words.
#![forbid(unsafe_code)]

mod frame;
mod known;
pub mod limits;
mod message;
mod redial;
mod server;
mod through;
mod version;

pub use frame::{FrameError, Receiver, Sender, split};
pub use message::{
    Hello, HostHello, MembershipAnswer, MembershipAsk, ToController, ToEngine, ToHost,
};
pub use redial::{Controller, Redial};
pub use server::{Heard, SessionId, What, serve};
pub use through::{Asked, Through};
pub use version::{Speaks, VERSION};
