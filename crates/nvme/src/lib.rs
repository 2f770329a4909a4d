//! NVMe and NVMe/TCP, target and initiator, as machines without I/O.
//!
//! Bytes go in; bytes, requests and answers come out. There is no socket and no clock: the caller
//! owns the connections and says what time it is.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod initiator;
pub mod limits;
pub mod reservation;
pub mod target;
pub mod wire;

mod frame;
mod op;
mod outgoing;
mod slab;
mod status;

pub use frame::Digests;
pub use op::{Op, Reply, Vendor, VendorData};
pub use outgoing::Outgoing;
pub use status::{Code, Status};
