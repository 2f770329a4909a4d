//! The data plane under chance: real storage nodes on disks that forget and streams that break.
//!
//! One queue of (time, event) and one seeded generator drive them against a store that is slow or
//! silent, connections that stall and drop, processes that die and nodes that lose power, while a
//! host writes numbered values over NVMe and judges every one that it reads. The control plane is a
//! few lines: it raises epochs and sends configs.

mod oracle;

mod configs;
mod control;
mod host;
mod judge;
mod links;
mod node;
mod snapshots;
mod store;
mod world;

mod faults;
mod run;

mod cases;
mod hunt;

pub use cases::{CASES, Case};
pub use faults::{Fault, PlannedFault, generate};
pub use hunt::{Caught, catch_node, catch_pool};
pub use run::{Failure, Report, Scene, run};
pub use world::{Broken, COPIES_MOST, Rules};
