//! The parts of a cluster that are not what ships, as machines that behave: no scripts, no
//! expectations. Storage nodes are real; of their disks judges see facts.

pub mod disk;
pub mod host;
pub mod store;
