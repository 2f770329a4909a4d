//! The client's half of NBD: a device of a host in use, as an application would.
//!
//! One thread writes requests, the caller's, and one reads answers: a server that is slow to answer
//! holds up neither.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use block::{BLOCK, Buffer, Durability, Extent};
use nvme::{Code, Op, Reply, Status};

use crate::{ClientError, Done, nbd::wire};

/// An answer may be taken from the list of requests and not be told yet.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where an NBD server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdUri {
    /// `nbd+unix:///?socket=PATH`
    Unix(PathBuf),
    /// `nbd://HOST:PORT`
    Tcp(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither nbd+unix:///?socket=PATH nor nbd://HOST:PORT")]
pub struct NbdUriError(String);

impl FromStr for NbdUri {
    type Err = NbdUriError;

    fn from_str(text: &str) -> Result<Self, NbdUriError> {
        if let Some(path) = text.strip_prefix("nbd+unix:///?socket=").filter(|p| !p.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let at = text.strip_prefix("nbd://").map(|at| at.trim_end_matches('/'));
        match at.and_then(|at| at.rsplit_once(':')) {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Tcp(format!("{host}:{port}")))
            }
            _ => Err(NbdUriError(text.into())),
        }
    }
}

/// A request without an answer.
#[derive(Debug)]
struct Open {
    tag: u64,
    since: Instant,
    /// Bytes that come with the answer.
    reads: usize,
}

type Requests = Arc<Mutex<BTreeMap<u64, Open>>>;

/// Dropping it says goodbye.
pub struct NbdClient {
    size: u64,
    to: Box<dyn Write + Send>,
    requests: Requests,
    answers: Receiver<Result<Done, io::Error>>,
    /// Why nothing can be sent any more.
    failed: Option<String>,
    next: u64,
}

impl std::fmt::Debug for NbdClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NbdClient").field("size", &self.size).finish_non_exhaustive()
    }
}

impl NbdClient {
    pub fn connect(uri: &NbdUri) -> Result<Self, ClientError> {
        match uri {
            NbdUri::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                Self::begin(stream.try_clone()?, stream)
            }
            NbdUri::Tcp(at) => {
                let stream = TcpStream::connect(at)?;
                stream.set_nodelay(true)?;
                Self::begin(stream.try_clone()?, stream)
            }
        }
    }

    fn begin(
        mut from: impl Read + Send + 'static,
        mut to: impl Write + Send + 'static,
    ) -> Result<Self, ClientError> {
        let size = shake_hands(&mut from, &mut to)?;
        let requests = Requests::default();
        let (say, answers) = mpsc::channel();
        let open = Arc::clone(&requests);
        thread::Builder::new()
            .name("nbd-answers".into())
            .spawn(move || listen(from, &open, &say))?;
        Ok(Self { size, to: Box::new(to), requests, answers, failed: None, next: 0 })
    }

    /// Bytes beyond the last whole block are not used.
    pub fn blocks(&self) -> u64 {
        self.size / BLOCK as u64
    }

    pub fn submit(&mut self, tag: u64, op: &Op) {
        self.next += 1;
        let cookie = self.next;
        let mut bytes = Vec::with_capacity(28);
        let Some(reads) = ask(&mut bytes, cookie, op) else {
            // An answer that never comes would hang the caller.
            self.failed = Some("NBD knows no such command".into());
            return;
        };
        let open = Open { tag, since: Instant::now(), reads };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, open);
        let sent = self.to.write_all(&bytes).and_then(|()| match op {
            Op::Write { data, .. } => self.to.write_all(data.bytes()),
            _ => Ok(()),
        });
        if let Err(error) = sent {
            self.failed.get_or_insert(error.to_string());
        }
    }

    /// Waits until nothing is under way, and forgets the answers.
    pub fn settle(&mut self) -> Result<(), ClientError> {
        let mut nobodys = Vec::new();
        while !self.requests.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.wait(&mut nobodys, Some(Instant::now() + LOOK_EVERY))?;
        }
        while let Ok(answer) = self.answers.try_recv() {
            drop(answer);
        }
        Ok(())
    }

    /// Waits for at least one answer, or for the time. Answers come in `done`.
    pub fn wait(
        &mut self,
        done: &mut Vec<Done>,
        until: Option<Instant>,
    ) -> Result<(), ClientError> {
        let gone = |reason: String| ClientError::DeviceGone { reason };
        loop {
            match self.answers.try_recv() {
                Ok(answer) => done.push(answer.map_err(|error| gone(error.to_string()))?),
                Err(_) if !done.is_empty() => return Ok(()),
                Err(_) => break,
            }
        }
        if let Some(reason) = &self.failed {
            return Err(gone(reason.clone()));
        }
        let left =
            until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        match self.answers.recv_timeout(left) {
            Ok(answer) => done.push(answer.map_err(|error| gone(error.to_string()))?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(gone("its server ended".into())),
        }
        Ok(())
    }
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        let mut bytes = Vec::new();
        wire::ask(&mut bytes, wire::DISC, 0, 0, 0, 0);
        // A server that is gone needs none.
        let _ = self.to.write_all(&bytes);
    }
}

/// Writes the head of a request; the bytes that its answer will carry, if NBD knows it.
fn ask(out: &mut Vec<u8>, cookie: u64, op: &Op) -> Option<usize> {
    let fua = |now: &Durability| if now.is_durable() { wire::Flags::FUA } else { 0 };
    let (kind, flags, extent) = match op {
        Op::Read { extent } => (wire::READ, 0, *extent),
        Op::Write { extent, durability, .. } => (wire::WRITE, fua(durability), *extent),
        Op::Zero { extent, deallocate, durability } => {
            let hole = if *deallocate { 0 } else { wire::Flags::NO_HOLE };
            (wire::WRITE_ZEROES, fua(durability) | hole, *extent)
        }
        Op::Flush => (wire::FLUSH, 0, Extent::new(0, 0)),
        _ => return None,
    };
    let len = u32::try_from(BLOCK).ok()?.checked_mul(extent.blocks)?;
    wire::ask(out, kind, flags, cookie, extent.start * BLOCK as u64, len);
    if kind == wire::READ { usize::try_from(len).ok() } else { Some(0) }
}

/// The size of the one export.
fn shake_hands(from: &mut impl Read, to: &mut impl Write) -> io::Result<u64> {
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "not an NBD server");
    let mut greeting = [0; 18];
    from.read_exact(&mut greeting)?;
    if !wire::is_greeting(&greeting) {
        return Err(garbled());
    }
    let mut bytes = Vec::new();
    wire::ask_go(&mut bytes);
    to.write_all(&bytes)?;
    let mut size = None;
    loop {
        let mut head = [0; 20];
        from.read_exact(&mut head)?;
        let (is_ack, len) = wire::answered(&head).ok_or_else(garbled)?;
        let mut data = vec![0; len];
        from.read_exact(&mut data)?;
        match (is_ack, size) {
            (true, Some(size)) => return Ok(size),
            (true, None) => return Err(garbled()),
            (false, _) => size = wire::size_told(&data).or(size),
        }
    }
}

fn listen(mut from: impl Read, requests: &Requests, say: &Sender<Result<Done, io::Error>>) {
    loop {
        let answer = next(&mut from, requests);
        let is_end = answer.is_err();
        // Who asked may have gone.
        if say.send(answer).is_err() || is_end {
            return;
        }
    }
}

fn next(from: &mut impl Read, requests: &Requests) -> io::Result<Done> {
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "an answer that makes no sense");
    let mut head = [0; 16];
    from.read_exact(&mut head)?;
    let (error, cookie) = wire::replied(&head).ok_or_else(garbled)?;
    let open = requests.lock().unwrap_or_else(PoisonError::into_inner).remove(&cookie);
    let Open { tag, since, reads } = open.ok_or_else(garbled)?;
    let result = match (error, reads) {
        (0, 0) => Ok(Reply::Done),
        (0, len) => {
            let mut data = Buffer::zeroed(len);
            from.read_exact(data.get_mut().ok_or_else(garbled)?)?;
            Ok(Reply::Data(data))
        }
        (28, _) => Err(Status::from(Code::CapacityExceeded)),
        _ => Err(Status::from(Code::InternalError)),
    };
    Ok(Done { tag, result, took: since.elapsed() })
}

#[cfg(test)]
mod tests;
