//! A replicated target and its replicas, as machines without I/O.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
