//! The process that runs a node's storage: pools, replicas and targets on one shard, and the stream
//! to the controllers.
//!
//! Two threads. The shard (`shard`) has everything that data touches and never waits for anything
//! but its reactor. The control side speaks to controllers (`link`), puts the targets' questions to
//! the store, and answers people (`admin`); it hands orders to the shard (`handle`).
#![forbid(unsafe_code)]

pub mod fault;

mod admin;
mod block_devices;
mod desired;
mod device;
mod handle;
mod link;
mod metrics;
mod names;
mod net;
mod reserved;
mod shard;
mod slab;
mod start;
mod token;

pub use device::Device;
pub use handle::Handle;
pub use names::{ANY, nqn};
pub use start::{Engine, Records, Served, Settings, StartError, start};
