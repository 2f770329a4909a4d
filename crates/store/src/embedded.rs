//! The store in one file of one folder: `memory::Core` on disk, for a cluster without etcd.
//!
//! ```text
//!   <folder>/lock    held while the store is open; holds the pid of the holder
//!   <folder>/store   header, marks, the entries at some revision, and every record since
//!   <folder>/store.new   a rewrite under way; removed at the next open
//! ```
//! A write is acknowledged when its record is synced and the mark says so; one sync serves all
//! writes that wait. Reads answer from memory. At open every byte is verified: damage before the
//! mark is refused, an incomplete record behind it was never acknowledged and is cut off. The
//! reasons are in `docs/rfc/2026-11-15-embedded-store.md`.

mod codec;
mod file;
mod format;
mod load;
mod lock;
mod offline;
mod port;
mod report;
#[cfg(test)]
mod tests;
mod writer;

pub use codec::Dumped;
pub use offline::{Dump, check, dump, restore};
pub use port::{Embedded, EmbeddedWatch, Settings};
pub use report::{Repair, Report};
