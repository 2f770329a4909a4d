//! Bounds of the reactor, each with its reason.

use std::time::Duration;

/// Entries of the submission queue. One turn of a busy shard rarely makes more; if it does, they
/// are handed over in two system calls instead of one.
pub(crate) const SUBMISSIONS: u32 = 1024;

/// Operations on disks that are handed over at once instead of at the end of the turn. More of them
/// complete together, so the disk idles while the next lot is prepared: at depth 32 lots of 4 read
/// a fifth faster than whole turns of 16, and single ones no faster for four times the calls.
pub(crate) const DISK_LOT: usize = 4;

/// Operations in the kernel at once; later ones wait in order. The completion queue has room for
/// all of them, their cancellations and the bell, so that it never overflows.
pub(crate) const IN_FLIGHT: usize = 4096;

/// Entries of the completion queue: `IN_FLIGHT`, as many cancellations, and room to spare.
pub(crate) const COMPLETIONS: u32 = 16_384;

/// Pieces of one scattered read, write or send; the kernel takes no more (`IOV_MAX`). Longer ones
/// are continued inside.
pub(crate) const VECTORS: usize = 1024;

/// Bytes of one piece of work for the kernel, which moves at most 2 GiB less a page at a time. A
/// power of two, so that a continued transfer stays aligned for direct I/O.
pub(crate) const PIECE: usize = 1 << 30;

/// Threads for disks where there is no `io_uring`. They block in the kernel, so more of them than
/// cores; each costs a stack and a few kilobytes. Eight keep a common SSD at most of its speed.
pub(crate) const DISK_THREADS: usize = 8;

/// How long a dropped reactor waits for operations that cannot be cancelled (a disk that hangs)
/// before it gives up and leaks what the kernel may still write to.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(5);

/// Connections that the kernel accepts ahead of us. A host opens one per queue, all at once.
pub(crate) const BACKLOG: i32 = 1024;

/// Readiness events taken per system call by the backend without `io_uring`.
pub(crate) const EVENTS: usize = 256;
