//! The data plane under chance: the real target, replicas and pools on disks that forget.
//!
//! One queue of (time, event) and one seeded generator drive them against a store that is slow or
//! silent, connections that stall and drop, processes that die and nodes that lose power, while a
//! host writes numbered values and judges every one that it reads. The control plane is a few
//! lines: it raises epochs and starts targets.

mod oracle;
mod wire;

mod control;
mod disk_ops;
mod host;
mod judge;
mod node;
mod snapshots;
mod store;
mod target;
mod world;

mod faults;
mod run;

mod cases;
mod hunt;

pub use cases::{CASES, Case};
pub use faults::{Fault, PlannedFault, generate};
pub use hunt::{Caught, catch_pool};
pub use run::{Failure, Kind, Report, Scene, run};
pub use world::{Broken, COPIES_MOST, Rules};
