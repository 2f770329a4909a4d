//! A client that spins on a plain socket: the same for every server, and never the slower side.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use crate::measure::Speed;

/// Bytes of a question and of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub name: &'static str,
    pub question: usize,
    pub answer: usize,
}

/// As long on the wire as 4 KiB read and written over NVMe/TCP.
pub(crate) const SHAPES: [Shape; 2] = [
    Shape { name: "read", question: 72, answer: 24 + 4096 },
    Shape { name: "write", question: 72 + 4096, answer: 24 },
];

/// Keeps `depth` questions under way for a while.
pub(crate) fn ask(
    at: SocketAddr,
    shape: Shape,
    depth: usize,
    how_long: Duration,
) -> io::Result<Speed> {
    let mut socket = TcpStream::connect(at)?;
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    let questions = vec![1; shape.question * depth];
    let mut room = vec![0; 1 << 18];
    let (mut asked, mut nanos) = (VecDeque::new(), Vec::with_capacity(1 << 20));
    let (mut free, mut unsent, mut partial) = (depth, 0, 0);
    let start = Instant::now();
    let end = start + how_long;
    let mut now = start;
    while now < end {
        now = Instant::now();
        asked.extend(std::iter::repeat_n(now, free));
        unsent += free * shape.question;
        if unsent > 0 {
            unsent -= none_if_blocked(socket.write(&questions[..unsent]))?;
        }
        partial += none_if_blocked(socket.read(&mut room))?;
        now = Instant::now();
        free = partial / shape.answer;
        partial %= shape.answer;
        let since = |at: Instant| u64::try_from(now.duration_since(at).as_nanos());
        nanos.extend(asked.drain(..free).filter_map(|at| since(at).ok()));
    }
    Ok(Speed::of(nanos, now.duration_since(start)))
}

fn none_if_blocked(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
