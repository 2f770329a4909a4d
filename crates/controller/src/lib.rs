//! The controller process: it wires the store, the machine that decides, and the streams of engines
//! and hosts, and decides nothing itself.
//!
//! ```text
//!   store ──▶ follow ──▶ ┌────────┐ ──▶ commits, leases ──▶ store
//!   engines, hosts ────▶ │ drive  │ ──▶ configs ──────────▶ engines, hosts
//!   users (Handle) ────▶ └────────┘ ──▶ replies ──────────▶ users
//! ```
//! One task owns all state. What takes time runs as futures that finish, and their outcomes come
//! back as events.
#![forbid(unsafe_code)]

pub mod limits;

mod clock;
mod commits;
mod drive;
mod fault;
mod follow;
mod handle;
mod journal;
mod own_memberships;
mod sessions;
mod settings;

pub use drive::Controller;
pub use fault::DieAt;
pub use handle::{Handle, Served};
pub use rest::Seen;
pub use settings::{Opened, Settings, StoreUrl, UnreadableUrl};
