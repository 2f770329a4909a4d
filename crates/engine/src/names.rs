//! The NVMe names of things, all made of the ids that they have anyway.

use uuid::Uuid;

/// The name of a volume's or replica's subsystem, or of an engine as an initiator: the form that
/// NVMe sets aside for names without a domain.
pub fn nqn(id: Uuid) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{id}")
}

/// Instead of a host's name: any host. Only a stand-alone engine says so.
pub const ANY: &str = "*";

/// Stable for the volume, whoever serves it; twenty characters is what NVMe gives.
pub fn serial(id: Uuid) -> String {
    let mut serial = id.simple().to_string();
    serial.truncate(20);
    serial
}

/// Controllers of two targets of one volume must not share a number while a host holds both. Epochs
/// take turns in sixteen ranges: far more than paths that a host ever holds.
pub fn controller_range(epoch: u64) -> (u16, u16) {
    const COUNT: u16 = 4000;
    let turn = u16::try_from(epoch % 16).unwrap_or(0);
    (1 + turn * COUNT, COUNT)
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
