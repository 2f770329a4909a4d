//! What a write survives once it is answered.

use serde::{Deserialize, Serialize};

/// One word from the host's command to the disk: NVMe's and NBD's FUA, Linux' `RWF_DSYNC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// A loss of power may take it back until a flush is answered.
    Volatile,
    /// On the medium before it is answered.
    Durable,
}

impl Durability {
    /// As the wire says it: one flag.
    pub const fn from_fua(is_set: bool) -> Self {
        if is_set { Self::Durable } else { Self::Volatile }
    }

    pub const fn is_durable(self) -> bool {
        matches!(self, Self::Durable)
    }
}
