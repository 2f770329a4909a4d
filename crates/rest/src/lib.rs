//! The REST API of a controller: server, OpenAPI document, and the one typed client.
//!
//! What is served is what is stored, `model::Volume` and the others, with a status that is derived.
//! A request is validated by the planner's own rules, made durable, and may be waited for; it never
//! does the work. One table (`routes`) makes the router and the document, so neither can lie about
//! the other.
#![forbid(unsafe_code)]

pub mod limits;

mod backend;
mod problem;
mod shape;

mod browser;
mod change;
mod preview;
mod query;
mod read;
mod wait;
mod why;

mod events;
mod metrics;
mod openapi;
mod routes;
mod server;
mod threshold;

mod client;

pub use backend::{Away, Backend, Chosen, Lead, Seen, Unread};
pub use client::{Answer, Client, ClientError, EventStream, encode};
pub use model::{Health, Status};
pub use openapi::document;
pub use preview::{Impact, Preview, StepShown};
pub use problem::{FieldError, Problem};
pub use server::{router, serve};
pub use shape::{
    BlockDeviceShown, ClusterShown, DrillReport, DrillStart, EventShown, HostShown, NodeShown,
    NodeStatus, Page, PoolPut, PoolShown, PoolStatus, Promote, PublicationPut, RecordShown,
    Recover, ReplicaShown, SharePut, ShareShown, SnapshotPut, SnapshotShown, SwitchoverShown,
    TargetShown, VolumePut, VolumeShown, VolumeStatus,
};
pub use why::{Cause, Why};
