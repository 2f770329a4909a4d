//! Where connections come in and go out, with certificates or, on loopback, without.

use std::io::{self, ErrorKind};

use tokio::net::{TcpListener, TcpStream};

use crate::{Keyring, Peer, Stream};

/// A listener, and who may come in.
#[derive(Debug)]
pub struct Door {
    pub listener: TcpListener,
    /// Without one anybody who reaches the listener is let in.
    pub keyring: Option<Keyring>,
}

/// Somebody who came in.
#[derive(Debug)]
pub struct Welcomed {
    pub stream: Stream,
    /// Who it is, where certificates are asked for.
    pub peer: Option<Peer>,
}

impl From<TcpListener> for Door {
    fn from(listener: TcpListener) -> Self {
        Self { listener, keyring: None }
    }
}

impl Door {
    /// Asks for a certificate, if this door does. Takes a while: not to be awaited by whoever
    /// accepts.
    pub async fn welcome(keyring: Option<Keyring>, stream: TcpStream) -> io::Result<Welcomed> {
        // A small message must not wait for a larger one to go with it.
        stream.set_nodelay(true)?;
        let Some(keyring) = keyring else {
            return Ok(Welcomed { stream: stream.into(), peer: None });
        };
        let (stream, peer) = keyring.accept(stream).await?;
        Ok(Welcomed { stream, peer: Some(peer) })
    }
}

/// Connects to `HOST:PORT`, a controller's if there is a keyring to tell.
pub async fn dial(to: &str, keyring: Option<&Keyring>) -> io::Result<Stream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let Some(keyring) = keyring else { return Ok(stream.into()) };
    let wrong = || io::Error::new(ErrorKind::InvalidInput, format!("{to}: not HOST:PORT"));
    let (host, _) = to.rsplit_once(':').ok_or_else(wrong)?;
    keyring.connect(stream, host).await
}
