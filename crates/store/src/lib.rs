//! The store port on memory, on one file and on etcd.
//!
//! One suite (`conformance::store`) runs on all three. `memory` holds the semantics as a
//! deterministic machine, `embedded` puts that machine on disk, `etcd` asks a real cluster. None of
//! them knows what a volume is.
#![forbid(unsafe_code)]

pub mod embedded;
pub mod etcd;
pub mod limits;
mod membership;
pub mod memory;

pub use membership::Direct;
