//! The NVMe names of what an engine serves.

pub use model::{controller_range, nqn};
use uuid::Uuid;

/// Instead of a host's name: any host. Only a stand-alone engine says so.
pub const ANY: &str = "*";

/// Stable for the volume, whoever serves it; twenty characters is what NVMe gives.
pub fn serial(id: Uuid) -> String {
    let mut serial = id.simple().to_string();
    serial.truncate(20);
    serial
}
