//! Tools that use a volume over NVMe/TCP, with nothing of the control plane.
#![forbid(unsafe_code)]

mod client;
mod device;
mod ledger;
mod nbd;
mod nbd_client;
mod options;
mod pattern;
mod uri;

pub mod bench;
pub mod serve_nbd;
pub mod verify;

pub use client::{Client, ClientError, Done};
pub use device::Device;
pub use ledger::{Ledger, LedgerError, Promise, Wrong};
pub use nbd_client::{NbdClient, NbdUri, NbdUriError};
pub use options::{GiveUp, Lost, Options, PathState};
pub use pattern::{Found, fill, look};
pub use uri::{Uri, UriError};
