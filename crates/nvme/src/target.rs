//! The target's half: subsystems, their controllers, and the connections that hosts open to them.
//!
//! ```text
//!  bytes ─▶ Connection ─▶ command with its data ─▶ answered here ───────────▶ Out::Send
//!                                               └▶ Out::Request ─▶ complete ─┘
//! ```

mod admin;
mod connect;
mod connection;
mod core;
mod discovery;
mod event;
mod feature;
mod identify;
mod io;
mod log;
mod port;
mod property;
mod reserve;
mod session;
mod slots;
mod subsystem;

pub use port::{ConnId, Out, Parcel, Port, Request, Tag};
pub use session::{Session, SessionId};
pub use subsystem::{Family, Hosts, Kind, Listen, Namespace, Subsystem, SubsystemId};
