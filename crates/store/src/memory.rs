//! The semantics of the store as a machine, and a store that lives in one process.
//!
//! `Core` is the machine: synchronous, deterministic, without clock. The simulator drives it
//! directly and the embedded store keeps one on disk. `Memory` gives it the port's async shape.

mod base;
mod history;
mod leases;
mod machine;
mod port;
pub(crate) mod record;
#[cfg(test)]
mod tests;

pub use history::Bounds;
pub use machine::{Changes, Core};
pub use port::{Memory, MemoryWatch};
