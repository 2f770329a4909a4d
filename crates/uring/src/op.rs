//! What a reactor can be asked to do, and what it answers.

use std::{io, net::SocketAddr, time::Instant};

use block::{Buffer, Durability};
use rustix::io::Errno;

use crate::{Disk, Listener, Socket};

/// One thing to do. Every operation completes exactly once.
#[derive(Debug)]
pub enum Op {
    /// Fills the whole buffer, which must be the only one onto its memory.
    Read {
        disk: Disk,
        offset: u64,
        buffer: Buffer,
    },
    /// Writes all of it.
    Write {
        disk: Disk,
        offset: u64,
        data: Data,
        durability: Durability,
    },
    /// Makes durable whatever was written and completed before this was submitted.
    Sync {
        disk: Disk,
    },
    /// Gives the space back. What it reads as afterwards is zeros in a file, anything on a device.
    Discard {
        disk: Disk,
        offset: u64,
        len: u64,
    },
    /// Waits for one connection.
    Accept {
        listener: Listener,
    },
    Connect {
        to: SocketAddr,
    },
    /// Fills the buffer from `at` on with what is there, at least one byte unless the peer closed.
    /// One at a time per socket.
    Receive {
        socket: Socket,
        buffer: Buffer,
        at: usize,
    },
    /// Sends all of it. One at a time per socket.
    Send {
        socket: Socket,
        chunks: Vec<Chunk>,
    },
    Timeout {
        at: Instant,
    },
}

/// What is written: one buffer without the cost of a list, or several in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    One(Buffer),
    Many(Vec<Buffer>),
}

/// A part of what is sent: a header made for it, or shared data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    Bytes(Vec<u8>),
    Buffer(Buffer),
}

#[derive(Debug)]
pub struct Completion {
    /// As it was submitted.
    pub token: u64,
    pub outcome: Outcome,
}

/// How it went; buffers come back whether it worked or not.
#[derive(Debug)]
pub enum Outcome {
    Read {
        buffer: Buffer,
        result: Result<(), IoError>,
    },
    Written {
        data: Data,
        result: Result<(), IoError>,
    },
    Synced(Result<(), IoError>),
    Discarded(Result<(), IoError>),
    Accepted(Result<Socket, IoError>),
    Connected(Result<Socket, IoError>),
    /// How many bytes came; none means that the peer closed its side.
    Received {
        buffer: Buffer,
        result: Result<usize, IoError>,
    },
    /// After an error some of it may be on its way: the stream is of no more use.
    Sent {
        chunks: Vec<Chunk>,
        result: Result<(), IoError>,
    },
    Elapsed(Result<(), IoError>),
}

#[derive(Debug, thiserror::Error)]
pub enum IoError {
    #[error("cancelled")]
    Cancelled,
    /// The disk or its file system cannot do this; it was not done.
    #[error("not supported by the disk")]
    Unsupported,
    #[error("no space left")]
    NoSpace,
    #[error("past the end of the disk")]
    PastEnd,
    /// Asked for in a way that can never work: a fault of the caller.
    #[error("{0}")]
    Refused(&'static str),
    #[error(transparent)]
    Os(io::Error),
}

impl IoError {
    /// The system's number for an input/output error.
    pub const EIO: i32 = 5;

    /// The system's number for it.
    pub fn code(&self) -> i32 {
        match self {
            Self::Os(error) => error.raw_os_error().unwrap_or(Self::EIO),
            Self::Unsupported => 95,
            Self::NoSpace => 28,
            _ => Self::EIO,
        }
    }
}

impl Data {
    pub fn len(&self) -> usize {
        self.parts().iter().map(Buffer::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn parts(&self) -> &[Buffer] {
        match self {
            Self::One(buffer) => std::slice::from_ref(buffer),
            Self::Many(buffers) => buffers,
        }
    }
}

impl From<Buffer> for Data {
    fn from(buffer: Buffer) -> Self {
        Self::One(buffer)
    }
}

impl From<Vec<Buffer>> for Data {
    fn from(buffers: Vec<Buffer>) -> Self {
        Self::Many(buffers)
    }
}

impl Chunk {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Buffer(buffer) => buffer.bytes(),
        }
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Buffer> for Chunk {
    fn from(buffer: Buffer) -> Self {
        Self::Buffer(buffer)
    }
}

impl From<Errno> for IoError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::CANCELED => Self::Cancelled,
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => Self::Unsupported,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            other => Self::Os(other.into()),
        }
    }
}
