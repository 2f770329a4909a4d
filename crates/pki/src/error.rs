//! What can be wrong with certificates and their files.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("{} cannot be used", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} holds no {what} in PEM", path.display())]
    Empty { path: PathBuf, what: &'static str },
    #[error("{} holds a certificate that cannot be read", path.display())]
    Unreadable { path: PathBuf },
    #[error(
        "the certificate in {} names no role: `holdfast pki issue` makes some that do",
        path.display()
    )]
    NoRole { path: PathBuf },
    #[error(
        "the key in {} may be read by others: `chmod 600` it",
        path.display()
    )]
    Exposed { path: PathBuf },
    #[error("certificate, key and authority do not fit each other")]
    Unfit(#[from] rustls::Error),
    #[error("the authority in {} cannot vouch for anybody", path.display())]
    Verifier { path: PathBuf, source: rustls::server::VerifierBuilderError },
    #[error("{} holds no authority: make one with `holdfast pki init`", path.display())]
    NoAuthority { path: PathBuf },
    #[error("{}: {what} is there without the other half of the pair", path.display())]
    Half { path: PathBuf, what: &'static str },
    #[error("making a certificate failed")]
    Signing(#[from] rcgen::Error),
    #[error("{text:?} is no role: it must be controller, engine, host, client or etcd")]
    Role { text: String },
    #[error("{text:?} is no name of a process: letters, digits, '-', '_' and '.', at most 63")]
    Name { text: String },
    #[error("{text:?} is no address: it must be a name or an IP address, without a port")]
    Address { text: String },
    #[error("a {role} is dialled, so its certificate needs an address: --address")]
    NoAddress { role: crate::Role },
    #[error("{days} days are out of range: between 1 and {}", crate::limits::DAYS_MAX)]
    Days { days: u32 },
    #[error(
        "{} holds another certificate, {found}: --renew replaces it, or name another folder",
        path.display()
    )]
    Other { path: PathBuf, found: String },
}
