//! How a command ended: what went wrong, and whether trying again could help.

use core::fmt;

/// The status field of a completion. Success is not one of them: it is `Ok`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status {
    pub code: Code,
    /// Trying again cannot help. Without it Linux retries up to five times.
    pub is_final: bool,
    /// Which of the controller's three retry delays to wait, 0 for none.
    pub retry_delay: u8,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $kind:literal / $code:literal, $retry:ident;)*) => {
        /// What went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// One that has no name here: the kind and the code within it.
            Other(u8, u8),
        }

        impl Code {
            /// The status code type and the status code.
            pub const fn numbers(self) -> (u8, u8) {
                match self {
                    $(Self::$name => ($kind, $code),)*
                    Self::Other(kind, code) => (kind, code),
                }
            }

            pub const fn from_numbers(kind: u8, code: u8) -> Self {
                match (kind, code) {
                    $(($kind, $code) => Self::$name,)*
                    _ => Self::Other(kind, code),
                }
            }

            const fn is_final(self) -> bool {
                match self {
                    $(Self::$name => codes!(@ $retry),)*
                    Self::Other(..) => false,
                }
            }
        }
    };
    (@ never) => { true };
    (@ again) => { false };
}

codes! {
    InvalidOpcode = 0 / 0x01, never;
    InvalidField = 0 / 0x02, never;
    CommandIdConflict = 0 / 0x03, never;
    DataTransferError = 0 / 0x04, again;
    InternalError = 0 / 0x06, again;
    AbortRequested = 0 / 0x07, again;
    InvalidNamespace = 0 / 0x0b, never;
    CommandSequence = 0 / 0x0c, never;
    SglLengthInvalid = 0 / 0x0f, never;
    SglTypeInvalid = 0 / 0x11, never;
    SglOffsetInvalid = 0 / 0x16, never;
    HostIdInconsistent = 0 / 0x18, never;
    KeepAliveInvalid = 0 / 0x1a, never;
    /// Also what a peer's data with a wrong digest ends as: nothing was done.
    TransientTransport = 0 / 0x22, again;
    LbaOutOfRange = 0 / 0x80, never;
    /// No space left.
    CapacityExceeded = 0 / 0x81, again;
    NamespaceNotReady = 0 / 0x82, again;
    ReservationConflict = 0 / 0x83, never;

    AsyncEventLimit = 1 / 0x05, never;
    InvalidLogPage = 1 / 0x09, never;
    FeatureNotSaveable = 1 / 0x0d, never;
    FeatureNotChangeable = 1 / 0x0e, never;
    ConnectFormat = 1 / 0x80, never;
    ConnectBusy = 1 / 0x81, again;
    ConnectInvalid = 1 / 0x82, never;
    ConnectRestartDiscovery = 1 / 0x83, never;
    ConnectHostRefused = 1 / 0x84, never;
    DiscoverRestart = 1 / 0x90, again;

    WriteFault = 2 / 0x80, again;
    UnrecoveredRead = 2 / 0x81, never;
    CompareFailure = 2 / 0x85, never;
    Unwritten = 2 / 0x87, never;

    InternalPath = 3 / 0x00, again;
    PersistentLoss = 3 / 0x01, again;
    /// What a target that has fenced itself answers: the host turns to another path.
    Inaccessible = 3 / 0x02, again;
    Transition = 3 / 0x03, again;
    /// Given by the initiator here for whatever was under way when a connection was lost: it may or
    /// may not have happened.
    HostPath = 3 / 0x70, again;
    HostAborted = 3 / 0x71, again;
}

impl Status {
    /// As the meaning of the code suggests: a host's mistake stays one, anything else may pass.
    pub const fn new(code: Code) -> Self {
        Self { code, is_final: code.is_final(), retry_delay: 0 }
    }

    #[must_use]
    pub const fn never_again(self) -> Self {
        Self { is_final: true, ..self }
    }

    #[must_use]
    pub const fn again_after(self, delay: u8) -> Self {
        Self { is_final: false, retry_delay: delay & 3, ..self }
    }

    /// Whether it says something about the path, not about the command.
    pub const fn is_path_related(&self) -> bool {
        self.code.numbers().0 == 3
    }

    /// As the upper fifteen bits of a completion's last word; bit 0 is of no use over fabrics.
    pub fn to_bits(self) -> u16 {
        let (kind, code) = self.code.numbers();
        u16::from(code) << 1
            | u16::from(kind & 7) << 9
            | u16::from(self.retry_delay & 3) << 12
            | u16::from(self.is_final) << 15
    }

    /// `None` for success.
    pub fn from_bits(bits: u16) -> Option<Self> {
        let [low, high] = (bits >> 1).to_le_bytes();
        let kind = high & 7;
        if low == 0 && kind == 0 {
            return None;
        }
        let retry_delay = high >> 3 & 3;
        let code = Code::from_numbers(kind, low);
        Some(Self { code, is_final: bits & 0x8000 != 0, retry_delay })
    }
}

impl From<Code> for Status {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, code) = self.code.numbers();
        let last = if self.is_final { ", final" } else { "" };
        write!(f, "{:?} ({kind:x}h/{code:02x}h{last})", self.code)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_survives_the_wire() {
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x4001 == 0) {
            let back = Status::from_bits(bits).map_or(0, Status::to_bits);
            let is_success = bits & 0x0ffe == 0;
            assert_eq!(back, if is_success { 0 } else { bits });
        }
    }

    #[test]
    fn path_errors_invite_another_try_and_mistakes_do_not() {
        assert_eq!(Status::new(Code::Inaccessible).to_bits(), 0x0604);
        assert_eq!(Status::new(Code::InvalidField).to_bits(), 0x8004);
        assert_eq!(Status::new(Code::CapacityExceeded).never_again().to_bits(), 0x8102);
        assert!(Status::new(Code::Transition).is_path_related());
    }
}
