//! NVMe and NVMe/TCP, target and initiator, as machines without I/O.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
