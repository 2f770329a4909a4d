//! What a process shows to others, and goes by when others show theirs.
//!
//! The files are looked at again at every handshake, and read again when one of them changed: a
//! renewed certificate needs no restart. Connections that stand go on with what they began with. If
//! what is found cannot be used, that is said and the old one stays in use.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::WebPkiServerVerifier,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName},
    server::WebPkiClientVerifier,
    version::TLS13,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tracing::{info, warn};

use crate::{Certificate, Files, Peer, PkiError, Role, Stream, folder, limits};

/// Clones share what was read.
#[derive(Clone, Debug)]
pub struct Keyring {
    files: Arc<Files>,
    loaded: Arc<Mutex<Loaded>>,
}

#[derive(Clone, Debug)]
struct Loaded {
    own: Peer,
    seen: [Mark; 3],
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

/// By which a file that was replaced is told from the one that was read.
type Mark = Option<(u64, i64, i64, u64)>;

impl Keyring {
    pub fn open(files: Files) -> Result<Self, PkiError> {
        let loaded = Loaded::read(&files)?;
        Ok(Self { files: Arc::new(files), loaded: Arc::new(Mutex::new(loaded)) })
    }

    /// Who this process is to others.
    pub fn own(&self) -> Peer {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).own.clone()
    }

    /// Takes a connection, from whoever has a certificate of the authority. What its role may do is
    /// for the caller to say.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(Stream, Peer)> {
        let acceptor = TlsAcceptor::from(self.current().server);
        let shaken = within(acceptor.accept(stream)).await?;
        let peer = named(shaken.get_ref().1.peer_certificates())?;
        Ok((Stream::Tls(Box::new(shaken.into())), peer))
    }

    /// Believes only a controller, and only at an address that its certificate names.
    pub async fn connect(&self, stream: TcpStream, host: &str) -> io::Result<Stream> {
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|_| {
            io::Error::new(ErrorKind::InvalidInput, format!("{host}: no host name"))
        })?;
        let connector = TlsConnector::from(self.current().client);
        let shaken = within(connector.connect(name, stream)).await?;
        let peer = named(shaken.get_ref().1.peer_certificates())?;
        if peer.role != Role::Controller {
            let words = format!("{host} shows the certificate of {peer}, not of a controller");
            return Err(io::Error::new(ErrorKind::InvalidData, words));
        }
        Ok(Stream::Tls(Box::new(shaken.into())))
    }

    /// What is in the files now, or was before they became useless.
    fn current(&self) -> Loaded {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = marks(&self.files);
        if seen != loaded.seen {
            match Loaded::read(&self.files) {
                Ok(read) => {
                    info!(own = %read.own, "certificates read again");
                    *loaded = read;
                }
                Err(error) => {
                    warn!(%error, "changed certificates cannot be used, the old ones stay");
                    // Told once for each change: half a change is followed by the rest.
                    loaded.seen = seen;
                }
            }
        }
        loaded.clone()
    }
}

impl Loaded {
    fn read(files: &Files) -> Result<Self, PkiError> {
        // Marked first: a change in between is seen as one the next time.
        let seen = marks(files);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for ca in folder::certificates(&files.ca)? {
            roots.add(ca)?;
        }
        let chain = folder::certificates(&files.cert)?;
        let own = chain.first().and_then(Certificate::parse);
        let unreadable = || PkiError::Unreadable { path: files.cert.clone() };
        let own = own.ok_or_else(unreadable)?.peer;
        let own = own.ok_or_else(|| PkiError::NoRole { path: files.cert.clone() })?;
        let server = server(files, &provider, &roots, &chain)?;
        let client = client(files, &provider, roots, chain)?;
        Ok(Self { own, seen, server: Arc::new(server), client: Arc::new(client) })
    }
}

fn server(
    files: &Files,
    provider: &Arc<CryptoProvider>,
    roots: &RootCertStore,
    chain: &[CertificateDer<'static>],
) -> Result<ServerConfig, PkiError> {
    let roots = Arc::new(roots.clone());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let verifier =
        verifier.build().map_err(|source| PkiError::Verifier { path: files.ca.clone(), source })?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.to_vec(), folder::key(&files.key)?)?;
    // Every connection shows its certificate anew: one that ended must not live on in a ticket.
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn client(
    files: &Files,
    provider: &Arc<CryptoProvider>,
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, PkiError> {
    let roots = Arc::new(roots);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
    let verifier =
        verifier.build().map_err(|source| PkiError::Verifier { path: files.ca.clone(), source })?;
    Ok(ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_webpki_verifier(verifier)
        .with_client_auth_cert(chain, folder::key(&files.key)?)?)
}

/// The process of a certificate that rustls has verified.
fn named(shown: Option<&[CertificateDer<'_>]>) -> io::Result<Peer> {
    let certificate = shown.and_then(<[_]>::first).and_then(Certificate::parse);
    let nobody = || io::Error::new(ErrorKind::InvalidData, "the certificate names no role");
    certificate.and_then(|certificate| certificate.peer).ok_or_else(nobody)
}

async fn within<T>(shake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(ErrorKind::TimedOut, "the TLS handshake takes too long");
    timeout(limits::HANDSHAKE_WITHIN, shake).await.map_err(late)?
}

fn marks(files: &Files) -> [Mark; 3] {
    [mark(&files.ca), mark(&files.cert), mark(&files.key)]
}

fn mark(path: &Path) -> Mark {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}

#[cfg(test)]
mod tests;
