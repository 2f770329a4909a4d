//! The NVMe names of what a node serves.

use alloc::string::{String, ToString};

pub(crate) use model::controller_range;
pub use model::nqn;
use uuid::Uuid;

/// Instead of a host's name: any host. Only a stand-alone engine says so.
pub const ANY: &str = "*";

/// Stable for the volume, whoever serves it; twenty characters is what NVMe gives.
pub(crate) fn serial(id: Uuid) -> String {
    let mut serial = id.simple().to_string();
    serial.truncate(20);
    serial
}
