//! A volume as an NBD export, for programs that know no NVMe: qemu-img, nbdcopy, fio.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use block::Buffer;
use uring::{Chunk, Completion, Listener, Outcome, Socket};

use crate::{
    Client, ClientError, Done,
    nbd::{Nbd, Next, Request, Work},
};

const RECEIVE: usize = 512 * 1024;

/// Requests of one client that are under way: more are not read from its socket.
const REQUESTS: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum NbdServeError {
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// When to stop serving.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Set, and the client's waker rung: what is under way is answered, then it ends.
    pub asked: Arc<AtomicBool>,
    /// When the last client has gone, if there was one.
    pub with_last: bool,
}

struct Peer {
    socket: Socket,
    machine: Nbd,
    is_sending: bool,
    is_gone: bool,
    requests: usize,
    /// Nothing is received until requests were answered.
    held: Option<Buffer>,
}

struct Server<'a> {
    client: &'a mut Client,
    listener: Listener,
    peers: BTreeMap<u32, Peer>,
    last_peer: u32,
    work: Work,
    /// By the number of a request: the client, and its own name for it.
    asked: BTreeMap<u64, (u32, u64)>,
    is_stopping: bool,
}

/// Serves until it shall end, or the volume cannot be reached.
pub fn run(client: &mut Client, listener: Listener, end: &End) -> Result<(), NbdServeError> {
    serve(client, listener, |server| {
        server.is_stopping |= end.asked.load(Ordering::Relaxed);
        !server.is_over(end)
    })
}

/// Serves as long as `goes_on`, which is asked after everything that happens, with the count of
/// clients. The client's waker has it asked, too.
pub fn run_while(
    client: &mut Client,
    listener: Listener,
    mut goes_on: impl FnMut(&mut Client, usize) -> bool,
) -> Result<(), NbdServeError> {
    serve(client, listener, |server| goes_on(server.client, server.peers.len()))
}

fn serve(
    client: &mut Client,
    listener: Listener,
    mut goes_on: impl FnMut(&mut Server<'_>) -> bool,
) -> Result<(), NbdServeError> {
    let work = Work::new(client.attached().max_transfer);
    let mut server = Server {
        client,
        listener,
        peers: BTreeMap::new(),
        last_peer: 0,
        work,
        asked: BTreeMap::new(),
        is_stopping: false,
    };
    server.accept();
    let (mut done, mut completions) = (Vec::new(), Vec::new());
    while goes_on(&mut server) {
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
    fn is_over(&self, end: &End) -> bool {
        let is_told = |peer: &Peer| peer.is_gone || !peer.is_sending;
        let is_left = end.with_last && self.last_peer > 0 && self.peers.is_empty();
        let is_quiet = self.work.is_idle() && self.peers.values().all(is_told);
        (self.is_stopping || is_left) && is_quiet
    }

    fn accept(&mut self) {
        let listener = self.listener.clone();
        self.client.submit_io(ACCEPT, uring::Op::Accept { listener });
    }

    fn completed(&mut self, completion: Completion) {
        let id = u32::try_from(completion.token >> 1).unwrap_or(0);
        match completion.outcome {
            Outcome::Accepted(Ok(socket)) => {
                self.last_peer += 1;
                let machine = Nbd::new(self.client.blocks());
                self.receive(self.last_peer, socket.clone(), Buffer::zeroed(RECEIVE));
                let (is_sending, is_gone, requests, held) = (false, false, 0, None);
                let peer = Peer { socket, machine, is_sending, is_gone, requests, held };
                self.peers.insert(self.last_peer, peer);
                self.accept();
            }
            Outcome::Accepted(Err(_)) => self.accept(),
            Outcome::Received { buffer, result: Ok(len) } if len > 0 => {
                self.received(id, buffer, len);
            }
            Outcome::Received { .. } => {
                self.peers.remove(&id);
            }
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
        let Some(peer) = self.peers.get_mut(&id).filter(|_| !self.is_stopping) else { return };
        let mut requests = Vec::new();
        let result = peer.machine.receive(&buffer.bytes()[..len], &mut requests);
        if result.is_err() {
            peer.socket.close();
        }
        peer.requests += requests.len();
        peer.held = Some(buffer);
        for Request { cookie, op } in requests {
            let mut next = Next::default();
            let number = self.work.start(op, &mut next);
            self.asked.insert(number, (id, cookie));
            self.follow(next);
        }
    }

    fn answered(&mut self, done: Done) {
        let mut next = Next::default();
        self.work.answered(done.tag, done.result, &mut next);
        self.follow(next);
    }

    fn follow(&mut self, next: Next) {
        for (tag, command) in next.commands {
            self.client.submit(tag, command);
        }
        for finished in next.finished {
            let Some((id, cookie)) = self.asked.remove(&finished.number) else { continue };
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.requests -= 1;
                let result = finished.result.as_ref().map(Option::as_ref);
                peer.machine.done(cookie, result.map_err(|errno| *errno));
            }
        }
    }

    /// Sends what there is, and receives where there is room.
    fn flush(&mut self) {
        let mut listening = Vec::new();
        for (id, peer) in &mut self.peers {
            let has_room = peer.requests < REQUESTS;
            if let Some(buffer) = peer.held.take_if(|_| has_room) {
                listening.push((*id, peer.socket.clone(), buffer));
            }
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
        for (id, socket, buffer) in listening {
            self.receive(id, socket, buffer);
        }
    }
}
