//! Listeners: on loopback unless told otherwise.

use std::{net::SocketAddr, path::Path};

use anyhow::{Context as _, Result, bail};
use cli::Certificates;
use pki::{Files, Keyring, Role};
use store::etcd::Tls;
use tokio::net::TcpListener;
use tracing::warn;

/// What stands between a listener and strangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing: only this machine may reach it.
    Loopback,
    /// Who comes must show a certificate, or be on a list that came from one who did.
    Certificates,
    /// The operator said `--insecure`.
    Anyone,
}

impl Trust {
    pub(crate) fn new(insecure: bool, keyring: Option<&Keyring>) -> Self {
        match (insecure, keyring) {
            (_, Some(_)) => Self::Certificates,
            (true, None) => Self::Anyone,
            (false, None) => Self::Loopback,
        }
    }
}

/// Listens, if that is safe: on loopback, or with certificates, or because the operator accepts the
/// rest by name.
pub(crate) async fn bind(what: &str, address: SocketAddr, trust: Trust) -> Result<TcpListener> {
    allow(what, address, trust)?;
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("listening for {what} on {address}"))
}

pub(crate) fn allow(what: &str, address: SocketAddr, trust: Trust) -> Result<()> {
    match (address.ip().is_loopback(), trust) {
        (true, _) | (false, Trust::Certificates) => {}
        (false, Trust::Anyone) => warn!(%address, what, "listening without TLS: anyone is let in"),
        (false, Trust::Loopback) => bail!(
            "{address} is not on loopback, and {what} are asked for no certificate: \
             anyone who reaches it could change or destroy volumes; name certificates with --pki, \
             or say --insecure to accept that"
        ),
    }
    Ok(())
}

/// The certificates of a process, which must be of its role.
pub(crate) fn keyring(certificates: &Certificates, role: Role) -> Result<Option<Keyring>> {
    let keyring = certificates.keyring()?;
    if let Some(own) = keyring.as_ref().map(Keyring::own).filter(|own| own.role != role) {
        bail!("the certificate is that of {own}, and the process is a {role}");
    }
    Ok(keyring)
}

/// The name to go by: others see the one in the certificate.
pub(crate) fn name(said: Option<String>, keyring: Option<&Keyring>) -> Result<Option<String>> {
    let Some(own) = keyring.map(Keyring::own) else { return Ok(said) };
    match said {
        Some(said) if said != own.name => {
            bail!("--name {said} is not that of the certificate, which is for {own}")
        }
        _ => Ok(Some(own.name)),
    }
}

/// etcd's own certificates: another authority, so that who may use REST may not write the store.
pub(crate) fn etcd_tls(folder: Option<&Path>) -> Result<Option<Tls>> {
    let Some(folder) = folder else { return Ok(None) };
    let files = Files::in_folder(folder);
    let text = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    };
    let identity = Some((text(&files.cert)?, text(&files.key)?));
    Ok(Some(Tls { ca: text(&files.ca)?, identity, domain: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M-17 in part: what strangers could reach is not opened by accident.
    #[test]
    fn a_listener_beyond_loopback_is_refused_unless_asked_for_by_name() {
        let outside = "0.0.0.0:1".parse().unwrap();
        assert!(allow("engines", outside, Trust::Loopback).is_err());
        assert!(allow("engines", outside, Trust::Anyone).is_ok());
        assert!(allow("engines", outside, Trust::Certificates).is_ok());
        assert!(allow("engines", "127.0.0.1:1".parse().unwrap(), Trust::Loopback).is_ok());
    }
}
