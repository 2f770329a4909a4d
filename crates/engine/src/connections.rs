//! Connections: bytes in as they come, bytes out in one write per turn.

use std::net::SocketAddr;

use block::Buffer;
use nvme::Outgoing;
use uring::{Chunk, IoError, Op, Reactor, Socket};

use crate::token::Token;

/// Bytes that one receive may bring. Large enough that a burst of thirty-two commands with 4 KiB of
/// data each comes in one system call.
const RECEIVE: usize = 160 * 1024;

/// While this many bytes wait for one peer, nothing more of it is heard: who does not read what it
/// asked for must not fill our memory. What is under way is bounded by its queue.
const BACKLOG_MAX: usize = 8 * 1024 * 1024;

/// One connection, accepted or dialled.
#[derive(Debug)]
struct Conn {
    socket: Option<Socket>,
    /// Not here while a receive is under way.
    incoming: Option<Buffer>,
    queued: Vec<Chunk>,
    queued_bytes: usize,
    sending_bytes: usize,
    is_sending: bool,
    /// Bytes that came while too much was to be sent.
    held: Option<(Buffer, usize)>,
    /// Close once everything queued is sent.
    is_closing: bool,
}

/// All connections, by the numbers that the storage node gives them.
#[derive(Debug, Default)]
pub struct Connections {
    conns: Vec<Option<Conn>>,
    /// With something to send at the end of the turn.
    ready: Vec<u32>,
}

/// What a completion meant.
#[derive(Debug)]
pub enum Heard {
    /// Hand it back with `resume` when the bytes are taken.
    Bytes {
        conn: u32,
        buffer: Buffer,
        len: usize,
    },
    /// It is gone; its number may be given again.
    Gone {
        conn: u32,
    },
    Nothing,
}

impl Connections {
    pub fn accepted(&mut self, reactor: &mut Reactor, conn: u32, socket: Socket) {
        self.insert(conn, Conn::new(Some(socket)));
        self.receive(reactor, conn);
    }

    pub fn dial(&mut self, reactor: &mut Reactor, conn: u32, to: SocketAddr) {
        self.insert(conn, Conn::new(None));
        reactor.submit(Token::Connect(conn).pack(), Op::Connect { to });
    }

    /// A dialled one is up. An error means that it is gone.
    pub fn connected(
        &mut self,
        reactor: &mut Reactor,
        conn: u32,
        result: Result<Socket, IoError>,
    ) -> Result<(), IoError> {
        let Some(entry) = self.entry(conn) else { return Err(IoError::Cancelled) };
        match result {
            Ok(socket) if !entry.is_closing => {
                entry.socket = Some(socket);
                self.receive(reactor, conn);
                self.touch(conn);
                Ok(())
            }
            Ok(_) => {
                self.remove(conn);
                Err(IoError::Cancelled)
            }
            Err(error) => {
                self.remove(conn);
                Err(error)
            }
        }
    }

    pub fn received(
        &mut self,
        conn: u32,
        buffer: Buffer,
        result: &Result<usize, IoError>,
    ) -> Heard {
        match result {
            Ok(len) if *len > 0 => match self.entry(conn) {
                Some(entry) if entry.is_congested() => {
                    entry.held = Some((buffer, *len));
                    Heard::Nothing
                }
                Some(_) => Heard::Bytes { conn, buffer, len: *len },
                None => Heard::Nothing,
            },
            Ok(_) | Err(_) => {
                let Some(entry) = self.entry(conn) else { return Heard::Nothing };
                entry.incoming = Some(buffer);
                entry.shut();
                self.bury(conn)
            }
        }
    }

    /// The bytes were taken: go on receiving.
    pub fn resume(&mut self, reactor: &mut Reactor, conn: u32, buffer: Buffer) {
        if let Some(entry) = self.entry(conn) {
            entry.incoming = Some(buffer);
            self.receive(reactor, conn);
        }
    }

    pub fn send(&mut self, conn: u32, outgoing: &Outgoing) {
        let Some(entry) = self.entry(conn) else { return };
        entry.queued_bytes += outgoing.len();
        entry.queued.extend(outgoing.shared().map(Chunk::from));
        self.touch(conn);
    }

    /// Closes it when everything queued is sent.
    pub fn close(&mut self, conn: u32) {
        if let Some(entry) = self.entry(conn) {
            entry.is_closing = true;
            self.touch(conn);
        }
    }

    pub fn sent(&mut self, conn: u32, result: &Result<(), IoError>) -> Heard {
        let Some(entry) = self.entry(conn) else { return Heard::Nothing };
        entry.is_sending = false;
        entry.sending_bytes = 0;
        if result.is_err() {
            entry.shut();
            return self.bury(conn);
        }
        let held = if entry.is_congested() { None } else { entry.held.take() };
        self.touch(conn);
        held.map_or(Heard::Nothing, |(buffer, len)| Heard::Bytes { conn, buffer, len })
    }

    /// Hands everything queued to the kernel: once per turn, so that many answers go in one write.
    /// Answers which connections are gone.
    pub fn flush(&mut self, reactor: &mut Reactor) -> Vec<u32> {
        let mut gone = Vec::new();
        for conn in std::mem::take(&mut self.ready) {
            let Some(entry) = self.entry(conn) else { continue };
            let Some(socket) = &entry.socket else { continue };
            if entry.is_sending {
                continue;
            }
            if !entry.queued.is_empty() {
                entry.is_sending = true;
                entry.sending_bytes = std::mem::take(&mut entry.queued_bytes);
                let chunks = std::mem::take(&mut entry.queued);
                let op = Op::Send { socket: socket.clone(), chunks };
                reactor.submit(Token::Send(conn).pack(), op);
            } else if entry.is_closing {
                entry.shut();
                // Otherwise the receive that is under way ends and tells.
                if entry.incoming.is_some() {
                    self.remove(conn);
                    gone.push(conn);
                }
            }
        }
        gone
    }

    fn insert(&mut self, conn: u32, entry: Conn) {
        let index = conn as usize;
        if index >= self.conns.len() {
            self.conns.resize_with(index + 1, || None);
        }
        self.conns[index] = Some(entry);
    }

    fn entry(&mut self, conn: u32) -> Option<&mut Conn> {
        self.conns.get_mut(conn as usize)?.as_mut()
    }

    fn remove(&mut self, conn: u32) {
        if let Some(entry) = self.conns.get_mut(conn as usize) {
            *entry = None;
        }
    }

    fn receive(&mut self, reactor: &mut Reactor, conn: u32) {
        let Some(entry) = self.entry(conn) else { return };
        if let (Some(socket), Some(buffer)) = (&entry.socket, entry.incoming.take()) {
            let op = Op::Receive { socket: socket.clone(), buffer, at: 0 };
            reactor.submit(Token::Receive(conn).pack(), op);
        }
    }

    fn touch(&mut self, conn: u32) {
        self.ready.push(conn);
    }

    /// Gone once neither direction is with the kernel any more.
    fn bury(&mut self, conn: u32) -> Heard {
        match self.entry(conn) {
            Some(entry) if !entry.is_sending && entry.incoming.is_some() => {
                self.remove(conn);
                Heard::Gone { conn }
            }
            _ => Heard::Nothing,
        }
    }
}

impl Conn {
    fn new(socket: Option<Socket>) -> Self {
        Self {
            socket,
            incoming: Some(Buffer::zeroed(RECEIVE)),
            queued: Vec::new(),
            queued_bytes: 0,
            sending_bytes: 0,
            is_sending: false,
            held: None,
            is_closing: false,
        }
    }

    fn is_congested(&self) -> bool {
        self.queued_bytes + self.sending_bytes > BACKLOG_MAX
    }

    fn shut(&mut self) {
        self.queued.clear();
        self.queued_bytes = 0;
        if let Some((buffer, _)) = self.held.take() {
            self.incoming = Some(buffer);
        }
        if let Some(socket) = &self.socket {
            socket.close();
        }
    }
}
