//! A whole cluster on one machine: its folder, its processes, and what people wait for.
//!
//! ```text
//! DATA/cluster.json   how many nodes, which ports, how large the pools
//!      lock           held by the process that runs it, which writes its pid there
//!      store/         the embedded store
//!      node-1/        the state of an engine; its disk is node-1/disk
//!      etcd/          the store, if it is an etcd that is a member itself
//!      host-1/        the state of a host, and the sockets of its devices
//!      logs/          what each process says, one file each
//! ```
#![forbid(unsafe_code)]

mod cluster;
mod folder;
mod member;
mod network;
mod ports;
pub mod watch;

pub use cluster::Cluster;
pub use folder::{Folder, Shape, stop, wipe};
pub use member::{Binary, Member};
pub use network::Network;
pub use ports::Ports;
