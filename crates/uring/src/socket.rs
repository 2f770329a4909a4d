//! TCP and local stream sockets, set up for a reactor.
//!
//! They are in blocking mode: the ring waits inside the kernel, and the other backend asks for each
//! call not to block. A handle in flight keeps its descriptor, so that a number is never reused
//! under an operation.

use std::{
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    io::Errno,
    net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt},
};

use crate::{IoError, limits};

/// One stream. A clone is another handle onto it; it closes when the last one goes, those of
/// operations in flight included.
#[derive(Clone, Debug)]
pub struct Socket {
    stream: Arc<Stream>,
}

#[derive(Debug)]
struct Stream {
    fd: OwnedFd,
    peer: Option<SocketAddr>,
    receiving: AtomicBool,
    sending: AtomicBool,
}

/// Where connections arrive.
#[derive(Clone, Debug)]
pub struct Listener {
    fd: Arc<OwnedFd>,
}

/// One of the two directions of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

impl Socket {
    fn new(fd: OwnedFd, peer: Option<SocketAddr>) -> Self {
        // Refused for local sockets, which have nothing to delay.
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        let (receiving, sending) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { stream: Arc::new(Stream { fd, peer, receiving, sending }) }
    }

    /// Who is at the other end; unknown for a local socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer
    }

    pub fn local_addr(&self) -> Option<SocketAddr> {
        net::getsockname(self).ok()?.try_into().ok()
    }

    /// Ends both directions: a receive in flight completes with nothing, a send with an error, and
    /// the peer sees the end of the stream.
    pub fn close(&self) {
        // It fails only if the connection is gone already.
        let _ = net::shutdown(self, Shutdown::Both);
    }

    /// Starts to connect; writable, or in error, when that is decided.
    pub(crate) fn connecting(to: SocketAddr) -> Result<Self, Errno> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(family, SocketType::STREAM, flags, None)?;
        match net::connect(&fd, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::new(fd, Some(to))),
            Err(errno) => Err(errno),
        }
    }

    /// How connecting ended, once the socket is writable or in error.
    pub(crate) fn connected(&self) -> Result<(), Errno> {
        sockopt::socket_error(self)??;
        // Not yet decided, although something called it ready.
        net::getpeername(self).map_err(|errno| match errno {
            Errno::NOTCONN => Errno::AGAIN,
            other => other,
        })?;
        rustix::io::ioctl_fionbio(self, false)
    }

    /// Claims one direction for an operation; false if another has it.
    pub(crate) fn claim(&self, way: Way) -> bool {
        !self.claimed(way).swap(true, Ordering::Acquire)
    }

    pub(crate) fn release(&self, way: Way) {
        self.claimed(way).store(false, Ordering::Release);
    }

    fn claimed(&self, way: Way) -> &AtomicBool {
        match way {
            Way::In => &self.stream.receiving,
            Way::Out => &self.stream.sending,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.fd.as_fd()
    }
}

/// A connected stream from elsewhere, in blocking mode or not.
impl TryFrom<OwnedFd> for Socket {
    type Error = IoError;

    fn try_from(fd: OwnedFd) -> Result<Self, IoError> {
        rustix::io::ioctl_fionbio(&fd, false)?;
        let peer = net::getpeername(&fd)?.and_then(|peer| peer.try_into().ok());
        Ok(Self::new(fd, peer))
    }
}

impl Listener {
    pub fn tcp(at: SocketAddr) -> Result<Self, IoError> {
        // The standard library sets SO_REUSEADDR, so that a restart need not wait for old
        // connections to be forgotten.
        Self::new(TcpListener::bind(at).map_err(IoError::Os)?.into())
    }

    pub fn local(at: &Path) -> Result<Self, IoError> {
        Self::new(UnixListener::bind(at).map_err(IoError::Os)?.into())
    }

    fn new(fd: OwnedFd) -> Result<Self, IoError> {
        net::listen(&fd, limits::BACKLOG)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// Where it listens, with the port that the kernel chose; none for a local one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        net::getsockname(self).ok()?.try_into().ok()
    }

    /// Accepts no more: accepts in flight complete with an error.
    pub fn close(&self) {
        let _ = net::shutdown(self, Shutdown::Both);
    }

    /// A connection that is there already.
    pub(crate) fn accept(&self) -> Result<Socket, Errno> {
        let (fd, peer) = net::acceptfrom_with(self, SocketFlags::CLOEXEC)?;
        Ok(Socket::new(fd, peer.and_then(|peer| peer.try_into().ok())))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
