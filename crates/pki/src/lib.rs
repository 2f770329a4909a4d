//! Certificates of a cluster: made, read, and shown to each other.
//!
//! One authority signs for everybody. A certificate names a role and a process, as a URI among its
//! names (`holdfast:engine/node-1`), and whoever takes a connection goes by that. It knows nothing
//! of volumes, and neither stores nor sends keys: a key lies in a file for its owner alone.
#![forbid(unsafe_code)]

pub mod limits;

mod error;
mod role;

mod der;
mod read;

mod folder;

mod authority;

mod stream;

mod keyring;

mod door;

pub use authority::{Authority, Order, Outcome};
pub use door::{Door, Welcomed, dial};
pub use error::PkiError;
pub use folder::{AUTHORITY_KEY, Files};
pub use keyring::Keyring;
pub use read::Certificate;
pub use role::{Peer, Role};
pub use stream::Stream;
