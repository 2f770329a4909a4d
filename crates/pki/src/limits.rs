//! Limits of certificates and handshakes, with their reasons.

use std::time::Duration;

/// Who connects must have shown its certificate in this time.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// Handshakes of one listener at once: strangers who stall must not take all memory.
pub const HANDSHAKES_MAX: usize = 256;

/// Bytes of a file with certificates or a key; a chain of three takes less than 8 KiB.
pub const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Letters of a process's name: it is a part of file names.
pub const NAME_LENGTH_MAX: usize = 63;

/// Days that an authority is good for, if nothing else is said. Changing it means to visit every
/// machine.
pub const AUTHORITY_DAYS: u32 = 3650;

/// Days that a certificate is good for, if nothing else is said.
pub const CERTIFICATE_DAYS: u32 = 365;

/// Nothing is signed for longer: a century.
pub const DAYS_MAX: u32 = 36_500;
