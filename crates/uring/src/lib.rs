//! The reactor of one thread: its disks, sockets and timers.
#![deny(unsafe_op_in_unsafe_fn)]
