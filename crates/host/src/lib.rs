//! The process that gives a machine its volumes: it keeps a path to each target that it is told of,
//! watches it, and follows when the target moves, while the application keeps its device.
//!
//! ```text
//!  controllers ──▶ link ──▶ agent ──▶ Paths ──▶ the kernel's NVMe, or our own initiator with NBD
//!              ◀── HostInventory ◀──────┘
//! ```
//! One task (`agent`) owns what is wanted and what is seen; it decides nothing. What it says of
//! paths must be true: another host is let in on its word that it has left.
#![forbid(unsafe_code)]

pub mod limits;

mod agent;
mod desired;
mod kernel;
mod link;
mod local;
mod paths;
mod start;
mod user;

pub use kernel::{Kernel, NoKernel};
pub use local::{Local, LocalError};
pub use paths::{Device, Held, Paths};
pub use start::{Host, Settings, StartError, Way, start};
pub use user::User;
