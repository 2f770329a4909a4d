//! The NVMe names of things, all made of the ids that they have anyway.

use alloc::{format, string::String};

use uuid::Uuid;

use crate::{HostId, VolumeId};

/// The form that NVMe sets aside for names without a domain.
pub fn nqn(id: Uuid) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{id}")
}

/// Controllers of two targets of one volume must not share a number while a host holds both. Epochs
/// take turns in sixteen ranges: far more than paths that a host ever holds. Also how a host tells
/// to which of two targets at one address its kernel has connected.
pub fn controller_range(epoch: u64) -> (u16, u16) {
    const COUNT: u16 = 4000;
    let turn = u16::try_from(epoch % 16).unwrap_or(0);
    (1 + turn * COUNT, COUNT)
}

impl VolumeId {
    /// The name of its subsystem, whoever serves it.
    pub fn nqn(self) -> String {
        nqn(self.0)
    }
}

impl HostId {
    /// The name that it connects with, unless it has another one.
    pub fn nqn(self) -> String {
        nqn(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successive_targets_never_share_a_controller_number() {
        for epoch in 0..15 {
            let (first, count) = controller_range(epoch);
            assert!(first > 0 && first.checked_add(count).is_some_and(|end| end < 0xfff0));
            assert_eq!(controller_range(epoch + 1).0, first + count);
        }
    }
}
