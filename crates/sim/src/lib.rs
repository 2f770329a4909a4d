//! The deterministic simulator of a whole cluster.
//!
//! A queue of (time, event) and one seeded generator drive the real controllers and storage nodes.
//! The store, the network, the disks and the hosts behave and misbehave. A run is a function of a
//! seed and a script; after each event every promise is judged. Nothing here is used in production.
#![forbid(unsafe_code)]

mod names;
mod party;
mod queue;
mod random;

mod ctx;
mod message;
mod network;

pub mod fakes;

mod controller;
mod membership_asks;
mod oracle;
mod setup;

mod node_process;

mod script;

mod cluster;

mod expect;
mod generate;
mod run;
mod settle;
mod shrink;
mod user;

mod broken;
mod cases;

mod simulated_node;
mod streams;

pub mod data_plane;
pub mod exhaustive;

pub use broken::{
    BrokenBrain, BrokenNode, Caught, Sound, broken_brains, broken_nodes, catch, catch_node,
    forgetful_brains,
};
pub use cases::{CASE_SEED, Case, cases};
pub use cluster::{Answer, Cluster, HostMachine, Machine, NewBrain, Records, START, Seat};
pub use controller::{Brain, Controller, real_brain};
pub use ctx::{Ctx, Outbox, Timer};
pub use generate::generate;
pub use message::{
    Call, Caller, Message, StoreAnswer, StoreOp, StreamEvent, StreamId, StreamPiece, Watched,
};
pub use names::{
    LABEL_LENGTH_MAX, attempt, era, host, instance, label, node, pack, pool, replica, snapshot,
    volume,
};
pub use network::{Network, Weather};
pub use node_process::{Hardware, NodeProcess, TargetFacts};
pub use oracle::{Broken, Copies, Counts, Destroyed, Oracle, Truth};
pub use party::Party;
pub use queue::Queue;
pub use random::Random;
pub use run::{Failure, Kind, Options, Report, run};
pub use script::{
    Action, Ask, Expect, Fault, Line, Script, SnapshotState, Unreadable, VolumeState, Wish,
};
pub use setup::{DiskSetup, Setup, disk_path};
pub use shrink::{Shrunk, shrink};
