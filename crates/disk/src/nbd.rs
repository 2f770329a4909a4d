//! The server's half of NBD, as a machine without I/O: fixed newstyle, simple replies.
//!
//! ```text
//! greeting ─▶ options (LIST, INFO, GO, EXPORT_NAME, ABORT) ─▶ requests ─▶ DISC
//! ```
//! One export, whatever name the client asks for: each server serves one volume. Clients that ask
//! are told to prefer whole blocks of 4 KiB; requests of any bytes are served (`work`).

mod span;
mod turns;
pub(crate) mod wire;
mod work;

use block::{BLOCK, Buffer, Durability};

use self::wire::{Flags, Opt, Rep};
pub use self::{
    span::Span,
    work::{Next, Work},
};

/// Bytes of one request: what common clients use at most, and NBD's own advice.
pub const REQUEST_MAX: u32 = 32 * 1024 * 1024;

/// Bytes of one option: names and lists are short.
const OPTION_MAX: u32 = 64 * 1024;

#[derive(Debug)]
pub struct Nbd {
    size: u64,
    state: State,
    /// Bytes that do not make a whole message yet.
    pending: Vec<u8>,
    /// Bytes to send.
    pub outgoing: Vec<u8>,
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Options {
        no_zeroes: bool,
    },
    Requests,
    /// A write whose data is coming in.
    Data {
        cookie: u64,
        span: Span,
        durability: Durability,
        /// Of whole blocks; the payload has its place in them.
        data: Buffer,
        got: usize,
    },
    /// A refused write, whose data is thrown away.
    Skip {
        left: usize,
    },
    Ended,
}

/// What a client wants of the disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub cookie: u64,
    pub op: Op,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Op {
    Read {
        span: Span,
    },
    Write {
        span: Span,
        /// Every block that the span touches, with the payload in its place.
        data: Buffer,
        durability: Durability,
    },
    Zero {
        span: Span,
        may_deallocate: bool,
        durability: Durability,
    },
    Trim {
        span: Span,
        durability: Durability,
    },
    Flush,
}

/// Why a request failed, in NBD's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
    Shutdown = 108,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdError {
    #[error("not an NBD client")]
    NotNbd,
    #[error("an option of {size} bytes, more than the limit of {OPTION_MAX}")]
    OptionTooLarge { size: u32 },
    #[error("a request of {size} bytes, more than the limit of {REQUEST_MAX}")]
    RequestTooLarge { size: u32 },
}

impl Nbd {
    /// For a disk of this many blocks. The greeting is in `outgoing`.
    pub fn new(blocks: u64) -> Self {
        let mut outgoing = Vec::new();
        wire::greeting(&mut outgoing);
        let size = blocks * BLOCK as u64;
        Self { size, state: State::ClientFlags, pending: Vec::new(), outgoing }
    }

    /// The client said goodbye: send what is left and close.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Bytes as they come, in any pieces.
    pub fn receive(&mut self, bytes: &[u8], requests: &mut Vec<Request>) -> Result<(), NbdError> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            bytes = self.take_data(bytes, requests);
            if bytes.is_empty() {
                break;
            }
            self.pending.extend_from_slice(bytes);
            bytes = &[];
            let pending = std::mem::take(&mut self.pending);
            let mut rest = pending.as_slice();
            while let Some(after) = self.step(rest, requests)? {
                rest = self.take_data(after, requests);
            }
            self.pending = rest.to_vec();
        }
        Ok(())
    }

    pub fn done(&mut self, cookie: u64, result: Result<Option<&Buffer>, Errno>) {
        let error = result.as_ref().err().map_or(0, |errno| *errno as u32);
        wire::reply(&mut self.outgoing, error, cookie);
        if let Ok(Some(data)) = result {
            self.outgoing.extend_from_slice(data.bytes());
        }
    }

    /// Gives payload to the write that waits for it; what is left is the next message.
    fn take_data<'a>(&mut self, bytes: &'a [u8], requests: &mut Vec<Request>) -> &'a [u8] {
        match &mut self.state {
            State::Data { cookie, span, durability, data, got } => {
                let take = bytes.len().min(span.len as usize - *got);
                if let Some(to) = data.get_mut() {
                    let at = span.head() + *got;
                    to[at..at + take].copy_from_slice(&bytes[..take]);
                }
                *got += take;
                if *got == span.len as usize {
                    let op = Op::Write { span: *span, data: data.clone(), durability: *durability };
                    requests.push(Request { cookie: *cookie, op });
                    self.state = State::Requests;
                }
                &bytes[take..]
            }
            State::Skip { left } => {
                let take = bytes.len().min(*left);
                *left -= take;
                if *left == 0 {
                    self.state = State::Requests;
                }
                &bytes[take..]
            }
            State::Ended => &[],
            _ => bytes,
        }
    }

    /// One message from the front; `None` if there is no whole one.
    fn step<'a>(
        &mut self,
        bytes: &'a [u8],
        requests: &mut Vec<Request>,
    ) -> Result<Option<&'a [u8]>, NbdError> {
        match self.state {
            State::ClientFlags => {
                let Some((flags, rest)) = bytes.split_first_chunk() else { return Ok(None) };
                let no_zeroes = u32::from_be_bytes(*flags) & wire::NO_ZEROES != 0;
                self.state = State::Options { no_zeroes };
                Ok(Some(rest))
            }
            State::Options { no_zeroes } => self.option(bytes, no_zeroes),
            State::Requests => self.request(bytes, requests),
            State::Data { .. } | State::Skip { .. } | State::Ended => Ok(None),
        }
    }

    fn option<'a>(
        &mut self,
        bytes: &'a [u8],
        no_zeroes: bool,
    ) -> Result<Option<&'a [u8]>, NbdError> {
        let Some((head, rest)) = bytes.split_first_chunk::<16>() else { return Ok(None) };
        let (option, size) = wire::option(head).ok_or(NbdError::NotNbd)?;
        if size > OPTION_MAX {
            return Err(NbdError::OptionTooLarge { size });
        }
        let Some((data, rest)) = rest.split_at_checked(size as usize) else { return Ok(None) };
        match Opt::from(option) {
            Opt::ExportName => {
                wire::export(&mut self.outgoing, self.size, no_zeroes);
                self.state = State::Requests;
            }
            Opt::Abort => {
                wire::answer(&mut self.outgoing, option, Rep::Ack, &[]);
                self.state = State::Ended;
            }
            Opt::List => {
                wire::answer(&mut self.outgoing, option, Rep::Server, &0_u32.to_be_bytes());
                wire::answer(&mut self.outgoing, option, Rep::Ack, &[]);
            }
            Opt::Ask | Opt::Go => match wire::asks_for_block_size(data) {
                None => wire::answer(&mut self.outgoing, option, Rep::Invalid, &[]),
                Some(asks) => {
                    let out = &mut self.outgoing;
                    wire::answer(out, option, Rep::About, &wire::about_export(self.size));
                    if asks {
                        wire::answer(out, option, Rep::About, &wire::about_block_size(REQUEST_MAX));
                    }
                    wire::answer(out, option, Rep::Ack, &[]);
                    if Opt::from(option) == Opt::Go {
                        self.state = State::Requests;
                    }
                }
            },
            Opt::Other => wire::answer(&mut self.outgoing, option, Rep::Unsupported, &[]),
        }
        Ok(Some(rest))
    }

    fn request<'a>(
        &mut self,
        bytes: &'a [u8],
        requests: &mut Vec<Request>,
    ) -> Result<Option<&'a [u8]>, NbdError> {
        let Some((head, rest)) = bytes.split_first_chunk::<28>() else { return Ok(None) };
        let head = wire::request(head).ok_or(NbdError::NotNbd)?;
        let wire::Head { flags, kind, cookie, offset, len } = head;
        let is_write = kind == wire::WRITE;
        if len > REQUEST_MAX && matches!(kind, wire::READ | wire::WRITE) {
            return Err(NbdError::RequestTooLarge { size: len });
        }
        let durability = Durability::from_fua(flags.contains(Flags::FUA));
        let refused = match (kind, self.span(offset, len)) {
            (wire::DISC, _) => {
                self.state = State::Ended;
                return Ok(Some(&[]));
            }
            (wire::FLUSH, _) => {
                requests.push(Request { cookie, op: Op::Flush });
                None
            }
            (_, Err(errno)) => Some(errno),
            (wire::READ, Ok(span)) => {
                requests.push(Request { cookie, op: Op::Read { span } });
                None
            }
            (wire::WRITE, Ok(span)) => {
                let data = Buffer::zeroed(span.covering_bytes());
                self.state = State::Data { cookie, span, durability, data, got: 0 };
                None
            }
            (wire::TRIM, Ok(span)) => {
                requests.push(Request { cookie, op: Op::Trim { span, durability } });
                None
            }
            (wire::WRITE_ZEROES, Ok(span)) => {
                let may_deallocate = !flags.contains(Flags::NO_HOLE);
                let op = Op::Zero { span, may_deallocate, durability };
                requests.push(Request { cookie, op });
                None
            }
            (_, Ok(_)) => Some(Errno::NotSupported),
        };
        if let Some(errno) = refused {
            wire::reply(&mut self.outgoing, errno as u32, cookie);
            if is_write && len > 0 {
                self.state = State::Skip { left: len as usize };
            }
        }
        Ok(Some(rest))
    }

    fn span(&self, offset: u64, len: u32) -> Result<Span, Errno> {
        let end = offset.checked_add(u64::from(len)).ok_or(Errno::Invalid)?;
        if end > self.size || len == 0 {
            return Err(Errno::Invalid);
        }
        Ok(Span { offset, len })
    }
}

#[cfg(test)]
mod tests;
