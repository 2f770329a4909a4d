//! Reservations of hosts as the membership record keeps them.

use alloc::{string::String, vec::Vec};
use core::fmt::Write as _;

use model::Reserved;
use nvme::reservation::Reservations;

pub(crate) fn kept(reservations: &Reservations) -> Reserved {
    let mut state = String::new();
    for byte in reservations.to_bytes() {
        // A string takes everything.
        let _ = write!(state, "{byte:02x}");
    }
    Reserved { lasts: reservations.persists(), state }
}

/// `None` if this engine cannot read them: then nobody may be let in.
pub(crate) fn read(kept: Option<&Reserved>) -> Option<Reservations> {
    let Some(kept) = kept else { return Some(Reservations::new()) };
    if kept.state.len() % 2 != 0 || !kept.state.is_ascii() {
        return None;
    }
    let pairs = (0..kept.state.len()).step_by(2).map(|at| kept.state.get(at..at + 2));
    let bytes =
        pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()?;
    Reservations::from_bytes(&bytes)
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use nvme::reservation::{Command, Register};

    use super::*;

    #[test]
    fn what_is_kept_is_read_and_anything_else_is_refused() {
        let action = Register::Register;
        let (current, new, persist) = (0, 7, Some(true));
        let command = Command::Register { action, ignores_key: false, current, new, persist };
        let (state, _) = Reservations::new().decide(&[3; 16], &command).expect("it is free");
        let mut kept = kept(&state);
        assert!(kept.lasts);
        assert_eq!(read(Some(&kept)), Some(state));
        assert_eq!(read(None), Some(Reservations::new()));
        for wrong in ["0", "zz", "\u{e9}\u{e9}", "+1+1", "00"] {
            wrong.clone_into(&mut kept.state);
            assert_eq!(read(Some(&kept)), None, "{wrong}");
        }
    }
}
