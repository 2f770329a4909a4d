//! Every bound of the protocol machines, with its reason.

use core::time::Duration;

/// Data that one command may move: 1 MiB, which is what the mirror copies at a time. Memory stays
/// bounded all the same, because data is only asked for within `TRANSFER_CREDIT`.
pub const TRANSFER_MAX: usize = 1 << 20;

/// The same as a power of two of 4 KiB pages.
pub const MDTS: u8 = 8;

/// Data within the capsule on I/O queues. Saves a round trip for small writes; a full queue of
/// them is 2 MiB.
pub const INLINE_MAX: usize = 16 << 10;

/// Data within the capsule on admin queues and before Connect: fixed by the transport.
pub const ADMIN_INLINE_MAX: usize = 8 << 10;

/// Data that a connection may be asked for at once, beyond what comes in capsules.
pub const TRANSFER_CREDIT: usize = 4 << 20;

/// Memory of payloads that a port holds on to while it is busy, to use it again. As much as one
/// connection may be asked for, so that steady writing makes no new memory.
pub const REUSED_PORT: usize = 4 << 20;

/// The same for one queue of an initiator: what its reads need at full depth, 4 KiB each.
pub const REUSED_QUEUE: usize = 1 << 20;

/// Data in one unit from the host: a whole transfer, so that it needs one header.
pub const MAXH2CDATA: u32 = 1 << 20;

/// Entries of a queue.
pub const QUEUE_ENTRIES: u16 = 128;

/// I/O queues of one controller.
pub const IO_QUEUES: u16 = 32;

/// Controllers of one subsystem: what a broken host may leave behind before its time-outs strike.
pub const CONTROLLERS: usize = 256;

/// Connections of one port.
pub const CONNECTIONS: usize = 4096;

/// Asynchronous event requests held per controller.
pub const EVENT_REQUESTS: usize = 4;

/// Reservation notices kept per controller; older ones are dropped, as the log allows.
pub const NOTICES: usize = 32;

/// Registrants of one namespace.
pub const REGISTRANTS: usize = 256;

/// A connection that has not become a queue by then is closed.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Ranges of one Dataset Management command.
pub const DATASET_RANGES: usize = 256;

const _: () = assert!(TRANSFER_MAX == 4096 << MDTS);
