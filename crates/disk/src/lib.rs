//! Tools that use a volume over NVMe/TCP, with nothing of the control plane.
#![forbid(unsafe_code)]

mod client;
mod ledger;
mod nbd;
mod options;
mod pattern;
mod uri;

pub mod bench;
pub mod serve_nbd;
pub mod verify;

pub use client::{Client, ClientError, Done};
pub use ledger::{Ledger, LedgerError, Promise, Wrong};
pub use options::{GiveUp, Lost, Options, PathState};
pub use pattern::{Found, fill, look};
pub use uri::{Uri, UriError};
