//! A pool: how replicas and their snapshots lie on a disk, and what is durable when.
//!
//! Bytes and completions go in, reads, writes and syncs come out; there is no file here. What a
//! replica must remember of the protocol between targets and replicas is its `Header`; the pool
//! keeps it, and changes it only by `Note`s, one journal record each.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod header;

pub use header::{Absent, Boot, Header, Note};
