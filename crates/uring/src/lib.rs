//! The reactor of one thread: its disks, sockets and timers, and how other threads wake it.
//!
//! A caller hands over an operation together with everything that it needs (buffers, handles) and
//! gets it all back with the completion. So memory that the kernel may still touch has no other
//! owner, whatever becomes of the caller. This is the only crate with unsafe code: handing an entry
//! to the ring (`ring::queue`), one `ioctl` (`disk::discard`) and the count of a thread's switches
//! (`reactor`). Miri knows no `io_uring`, so that surface is kept this small and the same suite
//! runs on the backend that has none of the first.
#![deny(unsafe_op_in_unsafe_fn)]

mod limits;
mod op;

mod devices;
mod disk;
mod socket;
mod wake;

mod flight;
mod kernel;
mod ring;
mod threads;

mod pace;
mod reactor;
mod timers;

pub use devices::{BlockDevice, Partition};
pub use disk::{Compromise, Disk, DiskError, DiskKind};
pub use op::{Chunk, Completion, Data, IoError, Op, Outcome};
pub use reactor::{Backend, Reactor, Running, StartError};
pub use socket::{Listener, Socket};
pub use wake::{Full, Inbox, Outbox, Waker, inbox};
