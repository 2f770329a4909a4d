//! The parts of a cluster as machines that behave: no scripts, no expectations.

pub mod disk;
pub mod engine;
pub mod host;
pub mod store;
pub mod target;
