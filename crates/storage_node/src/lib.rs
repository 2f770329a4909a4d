//! A storage node: everything that an engine decides, as one machine without I/O.
//!
//! ```text
//!  configuration ─┐                                        ┌─▶ answers, inventories, log
//!  socket bytes ──┤   StorageNode::{received, disk_done,…} ├─▶ bytes to send, dial, close
//!  completions ───┼──▶ then StorageNode::run, then ────────┼─▶ disks: open, read, write, sync
//!  store answers ─┤    StorageNode::next_effect            └─▶ questions to the store
//!  time ──────────┘
//! ```
//! The engine drives it with a kernel's sockets and disks, simulators with simulated ones; nothing
//! is decided outside. Inside, a shard owns pools with their replicas (`storage`), targets
//! with the links to their replicas (`targets`), and the port that hosts and remote targets connect
//! to (`nvme_port`). A target reaches a replica of its own node by messages in a queue, never
//! directly: the two may live on different shards one day.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(feature = "flaws")]
mod audit;
mod injected_fault;
mod names;
mod params;

mod effect;
mod message;

mod desired_config;
mod metrics;
mod registry;
mod replica_protocol;
mod reservations;
mod slab;

mod context;
mod device;
mod nvme_port;
mod storage;
mod targets;

mod config;
mod inventory;
mod metrics_page;
mod node;
mod shard;
mod shutdown;

#[cfg(test)]
mod tests;

#[cfg(feature = "flaws")]
pub use audit::AuditEvent;
pub use device::Device;
pub use effect::{
    ConnId, DiskFailure, DiskId, DiskIoId, DiskOpenError, Effect, LogEvent, OpenDisk, TargetKey,
    Ticket,
};
pub use injected_fault::InjectedFault;
pub use names::{ANY, nqn};
pub use node::StorageNode;
pub use params::{Mutations, NodeMutation, NodeParams};
