//! The envelope: JSON, cut into frames of a length and a flag.
//!
//! ```text
//! +-------------------------------+----------------+
//! | length, top bit: more follows | that many bytes|
//! +-------------------------------+----------------+
//! ```

use std::marker::PhantomData;

use pki::Stream;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tracing::warn;

use crate::{
    known::unknown_name,
    limits::{FRAME_MAX, MESSAGE_MAX},
};

const MORE: u32 = 1 << 31;

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("a {what} of {size} bytes, more than the limit of {limit}")]
    TooLarge { what: &'static str, size: usize, limit: usize },
    #[error("a message that does not decode: {0}")]
    Garbled(#[from] serde_json::Error),
    /// It was read to its end: whoever can do without it goes on.
    #[error("a message {name:?} that this version does not know")]
    NotKnown { name: String },
    #[error("refused: {reason}")]
    Refused { reason: String },
}

impl FrameError {
    /// It will not pass by itself, so people must hear of it: the two sides do not accept each
    /// other's certificates, or only one of them has any; or one does not understand the other.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
            Self::Garbled(_) | Self::Refused { .. } => true,
            Self::TooLarge { .. } | Self::NotKnown { .. } => false,
        }
    }
}

#[derive(Debug)]
pub struct Receiver<T> {
    from: BufReader<ReadHalf<Stream>>,
    kind: PhantomData<fn() -> T>,
}

#[derive(Debug)]
pub struct Sender<T> {
    to: WriteHalf<Stream>,
    kind: PhantomData<fn(T)>,
}

/// The two directions of a connection.
pub fn split<In, Out>(stream: impl Into<Stream>) -> std::io::Result<(Receiver<In>, Sender<Out>)> {
    let stream = stream.into();
    if let Stream::Plain(stream) = &stream {
        stream.set_nodelay(true)?;
    }
    let (from, to) = tokio::io::split(stream);
    let receiver = Receiver { from: BufReader::new(from), kind: PhantomData };
    Ok((receiver, Sender { to, kind: PhantomData }))
}

impl<T: DeserializeOwned> Receiver<T> {
    /// The next message; `None` when the other side closed between two messages. To be awaited to
    /// its end: dropping it in the middle of a message loses the place in the stream.
    pub async fn next(&mut self) -> Result<Option<T>, FrameError> {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 4];
            if let Err(error) = self.from.read_exact(&mut head).await {
                let at_end = error.kind() == std::io::ErrorKind::UnexpectedEof;
                return if at_end && message.is_empty() { Ok(None) } else { Err(error.into()) };
            }
            let head = u32::from_le_bytes(head);
            let size = usize::try_from(head & !MORE).unwrap_or(usize::MAX);
            bounded("frame", size, FRAME_MAX)?;
            bounded("message", message.len() + size, MESSAGE_MAX)?;
            let start = message.len();
            message.resize(start + size, 0);
            self.from.read_exact(&mut message[start..]).await?;
            if head & MORE == 0 {
                return match serde_json::from_slice(&message) {
                    Ok(decoded) => Ok(Some(decoded)),
                    Err(error) => Err(unknown_name::<T>(&message)
                        .map_or(FrameError::Garbled(error), |name| FrameError::NotKnown { name })),
                };
            }
        }
    }

    /// The next message that this version knows. A message of another version is told to people and
    /// passed over: whoever sends one can do without an answer.
    pub async fn next_known(&mut self) -> Result<Option<T>, FrameError> {
        loop {
            match self.next().await {
                #[cfg(feature = "next-build")]
                Err(FrameError::NotKnown { name }) if name == NEWS => {
                    tracing::info!(name, "understood");
                }
                Err(FrameError::NotKnown { name }) => {
                    warn!(name, "a message that this version does not know was passed over");
                }
                other => return other,
            }
        }
    }
}

/// A message that only the next release has.
#[cfg(feature = "next-build")]
const NEWS: &str = "NextBuild";

#[cfg(feature = "next-build")]
impl<T> Sender<T> {
    /// Says what an older version does not know.
    pub(crate) async fn send_news(&mut self) -> Result<(), FrameError> {
        let news = serde_json::json!({ NEWS: { "version": crate::VERSION } });
        self.send_bytes(&serde_json::to_vec(&news)?).await
    }
}

impl Sender<crate::ToController> {
    /// Says who this is.
    pub async fn greet(&mut self, hello: &crate::ToController) -> Result<(), FrameError> {
        self.send(hello).await?;
        #[cfg(feature = "next-build")]
        self.send_news().await?;
        Ok(())
    }
}

impl<T> Sender<T> {
    /// For a side that learns from the first message what the other one understands.
    pub(crate) fn retyped<Other>(self) -> Sender<Other> {
        Sender { to: self.to, kind: PhantomData }
    }
}

impl<T: Serialize> Sender<T> {
    pub async fn send(&mut self, message: &T) -> Result<(), FrameError> {
        #[cfg(not(feature = "next-build"))]
        let bytes = serde_json::to_vec(message)?;
        #[cfg(feature = "next-build")]
        let bytes = {
            let mut value = serde_json::to_value(message)?;
            model::next::widen_sent(&mut value);
            serde_json::to_vec(&value)?
        };
        self.send_bytes(&bytes).await
    }
}

impl<T> Sender<T> {
    async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        bounded("message", bytes.len(), MESSAGE_MAX)?;
        let mut rest = bytes;
        loop {
            let (frame, after) = rest.split_at(rest.len().min(FRAME_MAX));
            let size = u32::try_from(frame.len()).unwrap_or(u32::MAX);
            let head = if after.is_empty() { size } else { size | MORE };
            self.to.write_all(&head.to_le_bytes()).await?;
            self.to.write_all(frame).await?;
            if after.is_empty() {
                // TLS may still hold the end of it back.
                return Ok(self.to.flush().await?);
            }
            rest = after;
        }
    }
}

fn bounded(what: &'static str, size: usize, limit: usize) -> Result<(), FrameError> {
    if size > limit { Err(FrameError::TooLarge { what, size, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
