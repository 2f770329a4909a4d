//! What a completion belongs to, in the 64 bits that the kernel carries for us.

/// One operation of the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// By the number of its listener.
    Accept(u32),
    Connect(u32),
    Receive(u32),
    Send(u32),
    /// A disk's operation, by its number in the table of those under way.
    Disk(u32),
    /// The same, before it is begun: held back on purpose.
    Delayed(u32),
}

impl Token {
    pub fn pack(self) -> u64 {
        let (kind, number) = match self {
            Self::Accept(listener) => (0, listener),
            Self::Connect(conn) => (1, conn),
            Self::Receive(conn) => (2, conn),
            Self::Send(conn) => (3, conn),
            Self::Disk(number) => (4, number),
            Self::Delayed(number) => (5, number),
        };
        kind << 32 | u64::from(number)
    }

    /// `None` for a number that is none of ours.
    pub fn unpack(token: u64) -> Option<Self> {
        let number = u32::try_from(token & u64::from(u32::MAX)).ok()?;
        Some(match token >> 32 {
            0 => Self::Accept(number),
            1 => Self::Connect(number),
            2 => Self::Receive(number),
            3 => Self::Send(number),
            4 => Self::Disk(number),
            5 => Self::Delayed(number),
            _ => return None,
        })
    }
}
