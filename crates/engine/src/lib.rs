//! The process that runs a node's storage: a driver around [`storage_node`], which decides
//! everything, and the stream to the controllers.
//!
//! Two threads. The shard's thread (`driver`) gives the machine sockets, disks and time, and never
//! waits for anything but its reactor. The control side speaks to controllers (`link`), puts the
//! targets' questions to the store, and answers people (`admin`); it hands orders to the driver
//! (`handle`).
#![forbid(unsafe_code)]

mod admin;
mod block_devices;
mod connections;
mod disks;
mod driver;
mod handle;
mod link;
mod log;
mod start;
mod token;

pub use disks::Device;
pub use handle::Handle;
pub use start::{Engine, Records, Served, Settings, StartError, start};
pub use storage_node::{ANY, InjectedFault, nqn};
