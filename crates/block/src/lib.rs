//! What the data plane moves: blocks, extents of them, the buffers that hold them, and bitmaps.
//!
//! The unit everywhere is the block of 4 KiB: the smallest thing that a disk writes whole, the page
//! of a pool and the logical block of every namespace. Bytes are counted only at the edges.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bitmap;
mod buffer;
mod buffers;
mod durability;
mod extent;

pub use bitmap::Bitmap;
pub use buffer::Buffer;
pub use buffers::Buffers;
pub use durability::Durability;
pub use extent::{BLOCK, Extent, REGION, regions};
