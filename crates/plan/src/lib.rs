//! What to do next: pure rules from the world to steps and waits.
//!
//! `World` holds every record and observation; `plan` looks at one subject and returns a step with
//! its reason, or the waits that hold it up; `apply` turns a step into the transaction that records
//! it; `node_config` and `host_config` turn records into what engines and hosts must have;
//! `request` turns users' wishes into transactions; `status` tells people. No rule reads a status.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod apply;
mod cluster;
mod config;
mod mint;
mod node;
pub mod placement;
#[allow(clippy::module_inception, reason = "the crate's verb has its own file, like every noun")]
mod plan;
mod pool;
mod recover;
mod request;
mod snapshot;
mod status;
mod step;
mod volume;
mod world;

pub use apply::apply;
pub use config::{host_config, host_part, node_config, node_difference};
pub use plan::{Plan, Planner, Rules, plan, sweep};
pub use recover::{Brought, Recovery, recover};
pub use request::{
    Accepted, Drill, FieldDifference, Refusal, Request, admit, check_spec, volume_differences,
    volume_users,
};
pub use status::{behind, status};
pub use step::{Action, Need, Step, Why};
pub use world::{
    Dispute, Gap, History, HostView, Loss, NodeView, Orphan, Pledge, PoolView, Standing, Touched,
    Verdict, VolumeView, World, hosts_of, nodes_of,
};
