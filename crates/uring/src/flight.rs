//! An operation under way, and what an answer of the kernel means for it: the same on each backend.

use block::{BLOCK, Buffer, Durability};
use rustix::io::Errno;

use crate::{
    Chunk, Completion, Data, Disk, IoError, Listener, Op, Outcome, Socket, limits, socket::Way,
};

/// Owns whatever the kernel may touch until it has answered for good.
#[derive(Debug)]
pub(crate) struct Flight {
    pub token: u64,
    pub work: Work,
    /// Bytes moved so far.
    pub done: usize,
    /// Asked to stop: it is not continued once the kernel has answered.
    pub cancelled: bool,
}

#[derive(Debug)]
pub(crate) enum Work {
    Read { disk: Disk, offset: u64, buffer: Buffer },
    Write { disk: Disk, offset: u64, data: Data, durability: Durability },
    Sync { disk: Disk },
    Discard { disk: Disk, offset: u64, len: u64 },
    Accept { listener: Listener },
    Connect { socket: Socket },
    Receive { socket: Socket, buffer: Buffer, at: usize },
    Send { socket: Socket, chunks: Vec<Chunk> },
}

#[derive(Debug)]
pub(crate) enum Next {
    /// There is more to do.
    Again(Flight),
    Done(Completion),
}

impl Flight {
    /// Not started if that could never work; then this is the answer.
    pub fn new(token: u64, op: Op) -> Result<Self, Completion> {
        let work = start(op).map_err(|outcome| Completion { token, outcome })?;
        Ok(Self { token, work, done: 0, cancelled: false })
    }

    /// Takes the kernel's answer: bytes moved, or for one that waits to be ready, anything.
    pub fn answer(mut self, answer: Result<usize, Errno>) -> Next {
        let moved = match answer {
            Err(Errno::INTR) => return self.again(),
            Err(errno) => return Next::Done(self.finish(Err(errno.into()))),
            Ok(moved) => moved,
        };
        self.done += moved;
        match &self.work {
            Work::Read { .. } if moved == 0 => Next::Done(self.finish(Err(IoError::PastEnd))),
            Work::Write { .. } | Work::Send { .. } if moved == 0 => {
                let stuck = IoError::Os(std::io::ErrorKind::WriteZero.into());
                Next::Done(self.finish(Err(stuck)))
            }
            Work::Read { .. } | Work::Write { .. } | Work::Send { .. } if self.left() > 0 => {
                self.again()
            }
            Work::Accept { .. } | Work::Connect { .. } => self.ready(),
            _ => Next::Done(self.finish(Ok(()))),
        }
    }

    /// Accepts or learns how connecting went, now that the kernel calls it ready.
    fn ready(self) -> Next {
        let result = match &self.work {
            Work::Accept { listener } => listener.accept(),
            Work::Connect { socket } => socket.connected().map(|()| socket.clone()),
            _ => Err(Errno::INVAL),
        };
        let result = match result {
            // Somebody was faster, or the peer thought better of it.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return self.again(),
            other => other.map_err(IoError::from),
        };
        let outcome = match self.work {
            Work::Connect { .. } => Outcome::Connected(result),
            _ => Outcome::Accepted(result),
        };
        Next::Done(Completion { token: self.token, outcome })
    }

    fn again(self) -> Next {
        if self.cancelled {
            return Next::Done(self.finish(Err(IoError::Cancelled)));
        }
        Next::Again(self)
    }

    pub fn finish(self, result: Result<(), IoError>) -> Completion {
        let outcome = match self.work {
            Work::Read { buffer, .. } => Outcome::Read { buffer, result },
            Work::Write { data, .. } => Outcome::Written { data, result },
            Work::Sync { .. } => Outcome::Synced(result),
            Work::Discard { .. } => Outcome::Discarded(result),
            Work::Accept { .. } => Outcome::Accepted(Err(failed(result))),
            Work::Connect { .. } => Outcome::Connected(Err(failed(result))),
            Work::Receive { socket, buffer, .. } => {
                socket.release(Way::In);
                Outcome::Received { buffer, result: result.map(|()| self.done) }
            }
            Work::Send { socket, chunks } => {
                socket.release(Way::Out);
                Outcome::Sent { chunks, result }
            }
        };
        Completion { token: self.token, outcome }
    }

    /// Bytes still to move.
    fn left(&self) -> usize {
        let all = match &self.work {
            Work::Read { buffer, .. } => buffer.len(),
            Work::Write { data, .. } => data.len(),
            Work::Send { chunks, .. } => chunks.iter().map(|chunk| chunk.bytes().len()).sum(),
            _ => 0,
        };
        all.saturating_sub(self.done)
    }

    /// Where on the disk to go on.
    pub fn at(&self, offset: u64) -> u64 {
        offset + u64::try_from(self.done).unwrap_or(u64::MAX)
    }

    /// The parts still to be written or sent, as much as one call takes.
    pub fn parts_left(&self) -> impl Iterator<Item = &[u8]> {
        let (buffers, chunks) = match &self.work {
            Work::Write { data, .. } => (data.parts(), [].as_slice()),
            Work::Send { chunks, .. } => ([].as_slice(), chunks.as_slice()),
            _ => ([].as_slice(), [].as_slice()),
        };
        let all = buffers.iter().map(Buffer::bytes).chain(chunks.iter().map(Chunk::bytes));
        let (mut skip, mut room) = (self.done, limits::PIECE);
        let left = all.filter_map(move |part| {
            let skipped = skip.min(part.len());
            skip -= skipped;
            let part = &part[skipped..];
            let part = &part[..part.len().min(room)];
            room -= part.len();
            (!part.is_empty()).then_some(part)
        });
        left.take(limits::VECTORS)
    }

    /// The bytes still to be filled, as much as one call takes.
    pub fn room_left(&mut self) -> &mut [u8] {
        let (buffer, from) = match &mut self.work {
            Work::Read { buffer, .. } => (buffer, self.done),
            Work::Receive { buffer, at, .. } => (buffer, *at),
            _ => return &mut [],
        };
        let bytes = buffer.get_mut().expect("nobody else held it at the start, and we own it");
        let end = bytes.len().min(from + limits::PIECE);
        &mut bytes[from..end]
    }
}

impl Work {
    pub fn is_for_disk(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::Sync { .. } | Self::Discard { .. } => {
                true
            }
            Self::Accept { .. }
            | Self::Connect { .. }
            | Self::Receive { .. }
            | Self::Send { .. } => false,
        }
    }
}

/// Checked before anything starts.
fn start(op: Op) -> Result<Work, Outcome> {
    match op {
        Op::Read { disk, offset, mut buffer } => {
            let problem = misfit(&disk, offset, std::slice::from_ref(&buffer))
                .or_else(|| shared(&mut buffer));
            match problem {
                Some(error) => Err(Outcome::Read { buffer, result: Err(error) }),
                None => Ok(Work::Read { disk, offset, buffer }),
            }
        }
        Op::Write { disk, offset, data, durability } => {
            let problem = misfit(&disk, offset, data.parts());
            match problem {
                Some(error) => Err(Outcome::Written { data, result: Err(error) }),
                None => Ok(Work::Write { disk, offset, data, durability }),
            }
        }
        Op::Sync { disk } => Ok(Work::Sync { disk }),
        Op::Discard { disk, offset, len } => match outside(&disk, offset, len) {
            Some(error) => Err(Outcome::Discarded(Err(error))),
            None => Ok(Work::Discard { disk, offset, len }),
        },
        Op::Accept { listener } => Ok(Work::Accept { listener }),
        Op::Connect { to } => match Socket::connecting(to) {
            Ok(socket) => Ok(Work::Connect { socket }),
            Err(errno) => Err(Outcome::Connected(Err(errno.into()))),
        },
        Op::Receive { socket, buffer, at } => start_receive(socket, buffer, at),
        Op::Send { socket, chunks } => start_send(socket, chunks),
        Op::Timeout { .. } => Err(Outcome::Elapsed(Err(IoError::Refused("timers are elsewhere")))),
    }
}

fn start_receive(socket: Socket, mut buffer: Buffer, at: usize) -> Result<Work, Outcome> {
    let problem = if at >= buffer.len() {
        Some(IoError::Refused("no room to receive into"))
    } else {
        shared(&mut buffer)
    };
    let problem = problem.or_else(|| {
        let claimed = socket.claim(Way::In);
        (!claimed).then_some(IoError::Refused("the socket is receiving already"))
    });
    match problem {
        Some(error) => Err(Outcome::Received { buffer, result: Err(error) }),
        None => Ok(Work::Receive { socket, buffer, at }),
    }
}

fn start_send(socket: Socket, chunks: Vec<Chunk>) -> Result<Work, Outcome> {
    if chunks.iter().all(|chunk| chunk.bytes().is_empty()) {
        return Err(Outcome::Sent { chunks, result: Ok(()) });
    }
    if !socket.claim(Way::Out) {
        let result = Err(IoError::Refused("the socket is sending already"));
        return Err(Outcome::Sent { chunks, result });
    }
    Ok(Work::Send { socket, chunks })
}

/// Why these buffers cannot be read from or written to the disk there.
fn misfit(disk: &Disk, offset: u64, parts: &[Buffer]) -> Option<IoError> {
    let len = parts.iter().map(Buffer::len).sum::<usize>();
    // On every disk, also one that would take it, so that it is found on the first.
    if len == 0 || !parts.iter().all(Buffer::is_aligned) {
        return Some(IoError::Refused("a read or write is of whole blocks"));
    }
    outside(disk, offset, u64::try_from(len).unwrap_or(u64::MAX))
}

fn outside(disk: &Disk, offset: u64, len: u64) -> Option<IoError> {
    let block = u64::try_from(BLOCK).unwrap_or(u64::MAX);
    if len == 0 || !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
        return Some(IoError::Refused("offset and length are of whole blocks"));
    }
    let is_inside = offset.checked_add(len).is_some_and(|end| end <= disk.size());
    (!is_inside).then_some(IoError::PastEnd)
}

fn shared(buffer: &mut Buffer) -> Option<IoError> {
    let is_ours = buffer.get_mut().is_some();
    (!is_ours).then_some(IoError::Refused("a buffer to be filled must have one owner"))
}

fn failed(result: Result<(), IoError>) -> IoError {
    result.err().unwrap_or(IoError::Refused("an answer without a connection"))
}
