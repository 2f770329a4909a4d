//! Answers over loopback: the reactor beside a server that spins on a plain socket.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

use block::Buffer;
use uring::{Backend, Chunk, Completion, Op, Outcome, Reactor, Socket};

use crate::{
    client::{SHAPES, Shape, ask},
    measure::{ROUND, ROUNDS, Speed, middle, row},
};

const RECEIVE: usize = 1 << 18;

pub(crate) fn run() -> io::Result<()> {
    for shape in SHAPES {
        for depth in [1, 32, 128] {
            let mut speeds = [const { Vec::new() }; 3];
            for _ in 0..ROUNDS {
                speeds[0].push(one(shape, depth, |listener, shape| {
                    serve(Backend::Uring, listener, shape)
                })?);
                speeds[1].push(one(shape, depth, spin)?);
                speeds[2].push(one(shape, depth, |listener, shape| {
                    serve(Backend::Threads, listener, shape)
                })?);
            }
            let [ours, theirs, threads] = speeds.map(middle);
            let case = format!("loopback {} 4 KiB depth {depth}", shape.name);
            row(&case, ours, "spinning socket", theirs);
            row(&format!("{case}, threads"), threads, "spinning socket", theirs);
        }
    }
    Ok(())
}

/// One server on a thread of its own, until the client has gone.
fn one(
    shape: Shape,
    depth: usize,
    server: impl FnOnce(TcpListener, Shape) -> io::Result<()> + Send,
) -> io::Result<Speed> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at: SocketAddr = listener.local_addr()?;
    thread::scope(|scope| {
        let serving = scope.spawn(move || server(listener, shape));
        let speed = ask(at, shape, depth, ROUND);
        // A client that leaves in the middle resets the connection: no fault of the server.
        let _ = serving.join();
        speed
    })
}

fn spin(listener: TcpListener, shape: Shape) -> io::Result<()> {
    let (mut socket, _) = listener.accept()?;
    drop(listener);
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    let mut room = vec![0; RECEIVE];
    let answers = vec![1; shape.answer * 256];
    let (mut partial, mut unsent) = (0, 0);
    loop {
        match socket.read(&mut room) {
            Ok(0) => return Ok(()),
            Ok(count) => partial += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        unsent += partial / shape.question * shape.answer;
        partial %= shape.question;
        if unsent > 0 {
            match socket.write(&answers[..unsent.min(answers.len())]) {
                Ok(count) => unsent -= count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A server as an engine is one: headers made anew, data shared, one send per turn.
struct Server {
    reactor: Reactor,
    socket: Socket,
    shape: Shape,
    data: Buffer,
    partial: usize,
    unanswered: usize,
    is_sending: bool,
}

fn serve(backend: Backend, listener: TcpListener, shape: Shape) -> io::Result<()> {
    let mut reactor = Reactor::new(backend).map_err(io::Error::other)?;
    let (stream, _) = listener.accept()?;
    drop(listener);
    let socket = Socket::try_from(std::os::fd::OwnedFd::from(stream)).map_err(io::Error::other)?;
    let buffer = Buffer::zeroed(RECEIVE);
    reactor.submit(0, Op::Receive { socket: socket.clone(), buffer, at: 0 });
    let (data, is_sending) = (Buffer::zeroed(4096), false);
    let mut server = Server { reactor, socket, shape, data, partial: 0, unanswered: 0, is_sending };
    let mut completions = Vec::new();
    loop {
        server.reactor.wait(&mut completions, None)?;
        for completion in completions.drain(..) {
            if server.take(completion).is_none() {
                return Ok(());
            }
        }
        server.answer();
    }
}

impl Server {
    /// None if the connection is over.
    fn take(&mut self, completion: Completion) -> Option<()> {
        match completion.outcome {
            Outcome::Received { buffer, result } => {
                self.partial += result.ok().filter(|count| *count > 0)?;
                self.unanswered += self.partial / self.shape.question;
                self.partial %= self.shape.question;
                let socket = self.socket.clone();
                self.reactor.submit(0, Op::Receive { socket, buffer, at: 0 });
            }
            Outcome::Sent { result, .. } => {
                result.ok()?;
                self.is_sending = false;
            }
            _ => return None,
        }
        Some(())
    }

    fn answer(&mut self) {
        if self.is_sending || self.unanswered == 0 {
            return;
        }
        let mut chunks = Vec::with_capacity(2 * self.unanswered);
        for _ in 0..std::mem::take(&mut self.unanswered) {
            chunks.push(Chunk::Bytes(vec![0; 24]));
            if self.shape.answer > 24 {
                chunks.push(Chunk::Buffer(self.data.clone()));
            }
        }
        self.reactor.submit(1, Op::Send { socket: self.socket.clone(), chunks });
        self.is_sending = true;
    }
}
