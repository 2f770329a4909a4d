//! Small worlds of the data plane, explored whole: the real target and replica machines, every
//! order of messages, and one crash or loss of each kind.
//!
//! Two replicas, one or two blocks, two or three epochs. What a host was told, what it may read and
//! what must lie on the disks is judged after every step. A rule that is left out on purpose must
//! be noticed: see `flaws`.

mod calm;
mod check;
mod disk;
mod explore;
mod flaws;
mod host;
mod hunt;
mod images;
mod scenes;
mod script;
mod shared;
mod step;
mod wire;
mod words;
mod world;

#[cfg(test)]
mod matrix;
#[cfg(test)]
mod tests;

pub use explore::{Explored, Limits, Trace, explore};
pub use flaws::{Outcome, hunt_all};
pub use hunt::walk;
pub use scenes::{Scene, deep_scenes, scenes};
pub use world::{Shape, World};
