//! How a volume is connected to, and what becomes of the way to it.

use std::time::{Duration, Instant};

use nvme::{Digests, initiator::Reason};
use uring::Backend;
use uuid::Uuid;

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    pub host_nqn: String,
    pub host_id: Uuid,
    pub io_queues: u16,
    /// Commands under way on each queue.
    pub entries: u16,
    pub digests: Digests,
    /// Give up when no path worked for so long.
    pub patience: Duration,
    pub give_up: GiveUp,
    pub backend: Backend,
}

/// What giving up means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// The client ends, with an error.
    End,
    /// Commands fail, and the search for a path goes on.
    FailCommands,
}

/// The way to the volume, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    Connecting,
    Live,
    /// It is tried again all the time.
    Lost {
        why: Lost,
        since: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The other side reset or closed the connection, or nobody listens there.
    Reset,
    /// No answer in time.
    Silent,
    /// It answered that it will not serve us.
    Refused,
}

impl From<Reason> for Lost {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::ConnectionLost { .. } => Self::Reset,
            Reason::CommandTimeout { .. } | Reason::AttachTimeout => Self::Silent,
            Reason::Stopped
            | Reason::Protocol { .. }
            | Reason::Terminated { .. }
            | Reason::Refused { .. }
            | Reason::Unfit { .. } => Self::Refused,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        let host_id = Uuid::new_v4();
        Self {
            host_nqn: format!("nqn.2014-08.org.nvmexpress:uuid:{host_id}"),
            host_id,
            io_queues: 1,
            entries: 128,
            digests: Digests { header: false, data: false },
            patience: Duration::from_secs(30),
            give_up: GiveUp::End,
            backend: Backend::Auto,
        }
    }
}
