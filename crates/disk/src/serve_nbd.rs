//! A volume as an NBD export, for programs that know no NVMe: qemu-img, nbdcopy, fio.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use block::{BLOCK, Buffer, Extent};
use nvme::{Code, Reply, Status};
use uring::{Chunk, Completion, Listener, Outcome, Socket};

use crate::{
    Client, ClientError, Done,
    nbd::{Errno, Nbd, Op, Request},
};

const RECEIVE: usize = 512 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum NbdServeError {
    #[error(transparent)]
    Client(#[from] ClientError),
}

struct Peer {
    socket: Socket,
    machine: Nbd,
    is_sending: bool,
    is_gone: bool,
}

/// A request of a client, which may be several commands.
struct Pending {
    peer: u32,
    cookie: u64,
    left: usize,
    failed: Option<Errno>,
    /// What was read so far.
    data: Option<Buffer>,
    start: u64,
}

struct Server<'a> {
    client: &'a mut Client,
    listener: Listener,
    peers: BTreeMap<u32, Peer>,
    next_peer: u32,
    pending: BTreeMap<u64, Pending>,
    /// By the tag of the command: the request, and its place in it.
    parts: BTreeMap<u64, (u64, Extent)>,
    next: u64,
}

/// Serves until `stop` is set and the last client has gone, or the volume cannot be reached.
pub fn run(
    client: &mut Client,
    listener: Listener,
    stop: &Arc<AtomicBool>,
) -> Result<(), NbdServeError> {
    run_while(client, listener, |_, peers| peers > 0 || !stop.load(Ordering::Relaxed))
}

/// Serves as long as `goes_on`, which is asked after everything that happens, with the count of
/// clients. The client's waker has it asked, too.
pub fn run_while(
    client: &mut Client,
    listener: Listener,
    mut goes_on: impl FnMut(&mut Client, usize) -> bool,
) -> Result<(), NbdServeError> {
    let mut server = Server {
        client,
        listener,
        peers: BTreeMap::new(),
        next_peer: 1,
        pending: BTreeMap::new(),
        parts: BTreeMap::new(),
        next: 0,
    };
    server.accept();
    let (mut done, mut completions) = (Vec::new(), Vec::new());
    while goes_on(server.client, server.peers.len()) {
        server.client.step(&mut done, &mut completions)?;
        for completion in completions.drain(..) {
            server.completed(completion);
        }
        for answer in done.drain(..) {
            server.answered(answer);
        }
        server.flush();
    }
    server.listener.close();
    for peer in server.peers.values() {
        peer.socket.close();
    }
    Ok(())
}

const ACCEPT: u64 = 0;

fn token(peer: u32, is_send: bool) -> u64 {
    u64::from(peer) << 1 | u64::from(is_send)
}

impl Server<'_> {
    fn accept(&mut self) {
        let listener = self.listener.clone();
        self.client.submit_io(ACCEPT, uring::Op::Accept { listener });
    }

    fn completed(&mut self, completion: Completion) {
        let id = u32::try_from(completion.token >> 1).unwrap_or(0);
        match completion.outcome {
            Outcome::Accepted(Ok(socket)) => {
                let id = self.next_peer;
                self.next_peer += 1;
                let machine = Nbd::new(self.client.blocks());
                self.receive(id, socket.clone(), Buffer::zeroed(RECEIVE));
                let peer = Peer { socket, machine, is_sending: false, is_gone: false };
                self.peers.insert(id, peer);
                self.accept();
            }
            Outcome::Accepted(Err(_)) => self.accept(),
            Outcome::Received { buffer, result: Ok(len) } if len > 0 => {
                self.received(id, buffer, len);
            }
            Outcome::Received { .. } => self.gone(id),
            Outcome::Sent { result, .. } => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.is_sending = false;
                    peer.is_gone |= result.is_err();
                }
            }
            _ => {}
        }
    }

    fn receive(&mut self, id: u32, socket: Socket, buffer: Buffer) {
        let op = uring::Op::Receive { socket, buffer, at: 0 };
        self.client.submit_io(token(id, false), op);
    }

    fn received(&mut self, id: u32, buffer: Buffer, len: usize) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut requests = Vec::new();
        let result = peer.machine.receive(&buffer.bytes()[..len], &mut requests);
        if result.is_err() {
            peer.socket.close();
        }
        let socket = peer.socket.clone();
        for request in requests {
            self.start(id, request);
        }
        self.receive(id, socket, buffer);
    }

    fn gone(&mut self, id: u32) {
        self.peers.remove(&id);
    }

    fn start(&mut self, peer: u32, request: Request) {
        let Request { cookie, op } = request;
        self.next += 1;
        let number = self.next;
        let extent = match &op {
            Op::Read { extent }
            | Op::Write { extent, .. }
            | Op::Zero { extent, .. }
            | Op::Trim { extent, .. } => *extent,
            Op::Flush => Extent::new(0, 0),
        };
        let moves = matches!(op, Op::Read { .. } | Op::Write { .. });
        let parts = cut(extent, self.part(moves));
        let data = matches!(op, Op::Read { .. }).then(|| Buffer::zeroed(bytes(&extent)));
        let left = parts.len();
        let start = extent.start;
        self.pending.insert(number, Pending { peer, cookie, left, failed: None, data, start });
        for part in parts {
            self.next += 1;
            self.parts.insert(self.next, (number, part));
            let from = usize::try_from(part.start - start).unwrap_or(0) * BLOCK;
            let command = match &op {
                Op::Read { .. } => nvme::Op::Read { extent: part },
                Op::Write { data, fua, .. } => nvme::Op::Write {
                    extent: part,
                    data: data.slice(from..from + bytes(&part)),
                    fua: *fua,
                },
                Op::Zero { may_deallocate, fua, .. } => {
                    nvme::Op::Zero { extent: part, deallocate: *may_deallocate, fua: *fua }
                }
                Op::Trim { fua, .. } => {
                    nvme::Op::Zero { extent: part, deallocate: true, fua: *fua }
                }
                Op::Flush => nvme::Op::Flush,
            };
            self.client.submit(self.next, command);
        }
    }

    /// Blocks that one command may have.
    fn part(&self, moves: bool) -> u32 {
        let most = if moves { self.client.attached().max_transfer / BLOCK } else { 1 << 12 };
        u32::try_from(most).unwrap_or(u32::MAX).max(1)
    }

    fn answered(&mut self, done: Done) {
        let Some((number, part)) = self.parts.remove(&done.tag) else { return };
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.left -= 1;
        match done.result {
            Ok(Reply::Data(from)) => {
                let at = usize::try_from(part.start - pending.start).unwrap_or(0) * BLOCK;
                if let Some(to) = pending.data.as_mut().and_then(Buffer::get_mut) {
                    to[at..at + from.len()].copy_from_slice(from.bytes());
                }
            }
            Ok(Reply::Done) => {}
            Err(status) => pending.failed = Some(errno(status)),
        }
        if pending.left > 0 {
            return;
        }
        let Some(pending) = self.pending.remove(&number) else { return };
        if let Some(peer) = self.peers.get_mut(&pending.peer) {
            let result = pending.failed.map_or(Ok(pending.data.as_ref()), Err);
            peer.machine.done(pending.cookie, result);
        }
    }

    fn flush(&mut self) {
        for (id, peer) in &mut self.peers {
            if peer.is_sending || peer.is_gone {
                continue;
            }
            if peer.machine.outgoing.is_empty() {
                if peer.machine.is_ended() {
                    peer.is_gone = true;
                    peer.socket.close();
                }
                continue;
            }
            peer.is_sending = true;
            let chunks = vec![Chunk::Bytes(std::mem::take(&mut peer.machine.outgoing))];
            let op = uring::Op::Send { socket: peer.socket.clone(), chunks };
            self.client.submit_io(token(*id, true), op);
        }
    }
}

fn bytes(extent: &Extent) -> usize {
    usize::try_from(extent.bytes()).unwrap_or(usize::MAX)
}

/// Parts of at most so many blocks; one empty part for what has none.
fn cut(extent: Extent, most: u32) -> Vec<Extent> {
    if extent.blocks == 0 {
        return vec![extent];
    }
    (0..extent.blocks)
        .step_by(most as usize)
        .map(|at| Extent::new(extent.start + u64::from(at), most.min(extent.blocks - at)))
        .collect()
}

fn errno(status: Status) -> Errno {
    match status.code {
        Code::CapacityExceeded => Errno::NoSpace,
        Code::LbaOutOfRange | Code::InvalidField => Errno::Invalid,
        code if code.numbers().0 == 3 => Errno::Shutdown,
        _ => Errno::Io,
    }
}
