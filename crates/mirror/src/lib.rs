//! A replicated target and its replicas, as machines without I/O.
//!
//! A [`Target`] serves one volume over several replicas; a [`Replica`] is one copy, in one pool.
//! Inputs go in with the time, outputs come out; whoever runs them moves requests and answers over
//! connections, keeps the disk, and asks the store. Both can be cloned, compared and hashed where
//! the payload can, so that a model explores every interleaving of the very code that runs.
//!
//! The rules are those of the protocol between targets and replicas: each one that a comment calls
//! by a [`Flaw`] is a hole that lost data when it was left open.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod flaw;
mod in_flight;
mod lock;
mod slots;
mod times;
mod wire;

mod replica;
mod target;

pub use flaw::Flaw;
pub use replica::{Replica, ReplicaOutput};
pub use target::{
    Command, HostFault, HostReply, HostResult, Input, Notice, Output, Phase, Seat, StoreAnswer,
    StoreRequest, Target, Why,
};
pub use times::{Geometry, Throttle, Times};
pub use wire::{Answer, Fault, Frozen, Request, State};
