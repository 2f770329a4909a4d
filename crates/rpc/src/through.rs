//! Membership records through a controller, for engines whose store is embedded there.

use model::{Membership, Revision, VolumeId};
use ports::{MembershipError, Memberships};
use tokio::sync::{mpsc, oneshot};

use crate::{MembershipAnswer, MembershipAsk, limits};

/// A question on its way to whichever controller is connected. Dropping `answer` says that it was
/// never sent, or that nobody knows.
#[derive(Debug)]
pub struct Asked {
    pub ask: MembershipAsk,
    pub answer: oneshot::Sender<MembershipAnswer>,
}

/// Asks by a channel, whose other end holds the connection.
#[derive(Clone, Debug)]
pub struct Through {
    asks: mpsc::Sender<Asked>,
}

impl Through {
    pub fn new() -> (Self, mpsc::Receiver<Asked>) {
        let (asks, asked) = mpsc::channel(limits::BACKLOG);
        (Self { asks }, asked)
    }

    /// `None`: no answer, though it may have been heard.
    async fn ask(&self, ask: MembershipAsk) -> Result<Option<MembershipAnswer>, MembershipError> {
        let (answer, answered) = oneshot::channel();
        let away = |_| MembershipError::Unavailable { reason: "no controller is connected".into() };
        self.asks.try_send(Asked { ask, answer }).map_err(away)?;
        Ok(tokio::time::timeout(limits::ASK_TIMEOUT, answered).await.ok().and_then(Result::ok))
    }
}

impl Memberships for Through {
    async fn read(&self, volume: VolumeId) -> Result<Option<Membership>, MembershipError> {
        let silent = || MembershipError::Unavailable { reason: "the controller is silent".into() };
        match self.ask(MembershipAsk::Read { volume }).await?.ok_or_else(silent)? {
            MembershipAnswer::Read(Ok(found)) => Ok(found.map(|(record, revision)| {
                let mut record = *record;
                record.revision = revision;
                record
            })),
            MembershipAnswer::Read(Err(error)) => Err(error),
            MembershipAnswer::Swapped(_) => Err(silent()),
        }
    }

    async fn swap(&self, record: &Membership) -> Result<Revision, MembershipError> {
        let read_at = record.revision;
        let ask = MembershipAsk::Swap { record: Box::new(record.clone()), read_at };
        match self.ask(ask).await? {
            Some(MembershipAnswer::Swapped(answer)) => answer,
            // It may have been written: the target reads until it knows.
            Some(MembershipAnswer::Read(_)) | None => Err(MembershipError::Unknown),
        }
    }
}
