//! The way in: connections with their handshakes done, and who is at the other end.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use pki::{Door, Keyring, Peer, Role, Stream, Welcomed};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::JoinSet,
};
use tracing::warn;

use crate::{Problem, limits};

/// Who asks, where certificates say so.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    peer: Option<Peer>,
    /// It came over loopback, where nobody is asked for a certificate.
    pub is_unasked: bool,
}

impl Visitor {
    /// Why it is not served. Engines and hosts have a listener of their own, and whoever takes over
    /// one of their machines shall not rule the cluster.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        let peer = self.peer.as_ref()?;
        let serves = matches!(peer.role, Role::Client | Role::Controller);
        let detail = format!("this is for clients, and the certificate shown is that of {peer}");
        (!serves).then(|| Problem::new("forbidden", detail))
    }
}

/// Nobody waits for another's handshake: they run beside each other, and who is done comes in.
pub(crate) struct Threshold {
    at: SocketAddr,
    ready: mpsc::Receiver<(Stream, Visitor)>,
    /// Ends with this.
    _accepting: JoinSet<()>,
}

impl Threshold {
    pub(crate) fn new(door: Door) -> io::Result<Self> {
        let at = door.listener.local_addr()?;
        let (done, ready) = mpsc::channel(limits::HANDSHAKES_READY);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(door.listener, door.keyring, done));
        Ok(Self { at, ready, _accepting: accepting })
    }
}

type Done = mpsc::Sender<(Stream, Visitor)>;

async fn accept(listener: TcpListener, keyring: Option<Keyring>, done: Done) {
    let places = Arc::new(Semaphore::new(pki::limits::HANDSHAKES_MAX));
    let mut shaking = JoinSet::new();
    loop {
        // With all places taken the kernel keeps who comes next, for a while.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while shaking.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                let (keyring, done) = (keyring.clone(), done.clone());
                shaking.spawn(async move {
                    welcome(stream, from, keyring, &done).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: accepting again at once would only burn CPU.
                warn!(%error, "accepting a connection failed");
                tokio::time::sleep(limits::ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn welcome(stream: TcpStream, from: SocketAddr, keyring: Option<Keyring>, done: &Done) {
    let is_unasked = keyring.is_none() && from.ip().is_loopback();
    match Door::welcome(keyring, stream).await {
        Ok(Welcomed { stream, peer }) => {
            // A server that has ended needs nobody.
            let _ = done.send((stream, Visitor { peer, is_unasked })).await;
        }
        Err(error) => warn!(%from, %error, "a connection to REST was refused"),
    }
}

impl Listener for Threshold {
    type Io = Stream;
    type Addr = Visitor;

    async fn accept(&mut self) -> (Stream, Visitor) {
        match self.ready.recv().await {
            Some(came) => came,
            // The task that accepts never ends before this does.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Visitor> {
        // Only for a log line that nobody asks for.
        Err(io::Error::other(format!("listening on {}", self.at)))
    }
}

impl Connected<IncomingStream<'_, Threshold>> for Visitor {
    fn connect_info(stream: IncomingStream<'_, Threshold>) -> Self {
        stream.remote_addr().clone()
    }
}
