//! Listeners: on loopback unless told otherwise.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpListener;
use tracing::warn;

/// Whether strangers may reach a listener that asks nobody who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Loopback,
    /// The operator said `--insecure`.
    Anyone,
}

/// Listens, if that is safe. There is no TLS yet, so only loopback is, unless the operator accepts
/// the rest by name.
pub(crate) async fn bind(what: &str, address: SocketAddr, trust: Trust) -> Result<TcpListener> {
    allow(what, address, trust)?;
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("listening for {what} on {address}"))
}

pub(crate) fn allow(what: &str, address: SocketAddr, trust: Trust) -> Result<()> {
    match (address.ip().is_loopback(), trust) {
        (true, _) => {}
        (false, Trust::Anyone) => warn!(%address, what, "listening without TLS: anyone is let in"),
        (false, Trust::Loopback) => bail!(
            "{address} is not on loopback, and there is no TLS for {what}: \
             anyone who reaches it could change or destroy volumes; say --insecure to accept that"
        ),
    }
    Ok(())
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
        assert!(allow("engines", "127.0.0.1:1".parse().unwrap(), Trust::Loopback).is_ok());
    }
}
