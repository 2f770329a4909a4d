//! Which certificate to show, and which authority to believe.

use std::path::PathBuf;

use clap::Args;
use pki::{Files, Keyring, PkiError};

/// A folder has all three under their usual names; each may be named by itself.
#[derive(Clone, Debug, Default, Args)]
pub struct Certificates {
    /// The folder of ca.crt, tls.crt and tls.key, as `holdfast pki issue` makes it
    #[arg(long, value_name = "FOLDER")]
    pub pki: Option<PathBuf>,
    /// The authority to believe [default: ca.crt of --pki]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The certificate to show [default: tls.crt of --pki]
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Its key [default: tls.key of --pki]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    #[error("--ca, --cert and --key belong together: name all three, or --pki FOLDER")]
    Incomplete,
    #[error(transparent)]
    Unusable(#[from] PkiError),
}

impl Certificates {
    /// None if nothing is named.
    pub fn keyring(&self) -> Result<Option<Keyring>, CertificatesError> {
        let usual = self.pki.as_deref().map(Files::in_folder);
        let pick = |named: &Option<PathBuf>, usual: Option<&PathBuf>| {
            named.clone().or_else(|| usual.cloned())
        };
        let usual = usual.as_ref();
        let ca = pick(&self.ca, usual.map(|files| &files.ca));
        let cert = pick(&self.cert, usual.map(|files| &files.cert));
        let key = pick(&self.key, usual.map(|files| &files.key));
        match (ca, cert, key) {
            (Some(ca), Some(cert), Some(key)) => Ok(Some(Keyring::open(Files { ca, cert, key })?)),
            (None, None, None) => Ok(None),
            _ => Err(CertificatesError::Incomplete),
        }
    }
}
