//! The members of a cluster, and requests to whichever of them answers.
//!
//! ```text
//!   answered                               ──▶ the answer
//!   not done (never connected, no leader)  ──▶ the next member; after all of them Unavailable
//!   unanswered, a read                     ──▶ the next member; after all of them Unavailable
//!   unanswered, a write                    ──▶ Unknown
//! ```

use core::time::Duration;
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use ports::StoreError;
use tokio::time::{Instant, timeout_at};
use tonic::{
    Code, Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use super::{
    config::{Config, Credentials},
    failure::{Failure, Refusal},
    wire::{AuthenticateRequest, auth_client::AuthClient},
};

/// Whether asking twice may do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    Read,
    Write,
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(super) enum NoAnswer {
    Refused(Refusal),
    Unavailable(String),
    Unknown(Duration),
}

impl From<NoAnswer> for StoreError {
    fn from(no_answer: NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Refused(refusal) => refusal.told(),
            NoAnswer::Unavailable(reason) => Self::Unavailable { reason },
            NoAnswer::Unknown(waited) => Self::Unknown { waited },
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    endpoints: Vec<String>,
    channels: Vec<Channel>,
    /// The member that answered last, or the one after the one that did not.
    current: AtomicUsize,
    credentials: Option<Credentials>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    pub(super) request_timeout: Duration,
}

impl Connection {
    pub(super) fn new(config: &Config) -> Result<Self, StoreError> {
        Ok(Self {
            endpoints: config.endpoints.clone(),
            channels: config.channels()?,
            current: AtomicUsize::new(0),
            credentials: config.credentials.clone(),
            token: Mutex::new(None),
            request_timeout: config.request_timeout,
        })
    }

    /// Asks until there is an answer, a reason, or no time left.
    pub(super) async fn call<Q, A, F>(
        &self,
        nature: Nature,
        question: &Q,
        send: impl Fn(Channel, Request<Q>) -> F + Send + Sync,
    ) -> Result<A, NoAnswer>
    where
        Q: Clone + Send + Sync,
        F: Future<Output = Result<Response<A>, Status>> + Send,
    {
        let asked = Instant::now();
        let deadline = asked + self.request_timeout;
        let mut tries_left = self.channels.len();
        let mut may_authenticate = true;
        loop {
            let member = self.member();
            // A read that one silent member swallows must leave time for the others.
            let patience = match nature {
                Nature::Read => self.request_timeout / self.member_count(),
                Nature::Write => self.request_timeout,
            };
            let until = deadline.min(Instant::now() + patience);
            let failure = match self.try_once(member, until, question, &send).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure == Failure::TokenEnded && may_authenticate {
                may_authenticate = false;
                self.forget_token();
                continue;
            }
            tries_left -= 1;
            let again = tries_left > 0 && Instant::now() < deadline;
            match failure {
                Failure::Refused(refusal) => return Err(NoAnswer::Refused(refusal)),
                Failure::TokenEnded => {
                    let reason = "etcd takes no token of ours".to_owned();
                    return Err(NoAnswer::Refused(Refusal::Forbidden(reason)));
                }
                Failure::Unanswered(_) if nature == Nature::Write => {
                    self.give_up(member);
                    return Err(NoAnswer::Unknown(asked.elapsed()));
                }
                Failure::NotDone(reason) | Failure::Unanswered(reason) => {
                    self.give_up(member);
                    if !again {
                        let reason = format!("etcd at {}: {reason}", self.endpoints[member]);
                        return Err(NoAnswer::Unavailable(reason));
                    }
                }
            }
        }
    }

    async fn try_once<Q, A, F>(
        &self,
        member: usize,
        until: Instant,
        question: &Q,
        send: impl Fn(Channel, Request<Q>) -> F + Send + Sync,
    ) -> Result<A, Failure>
    where
        Q: Clone + Send + Sync,
        F: Future<Output = Result<Response<A>, Status>> + Send,
    {
        let channel = self.channels[member].clone();
        let silent = |_| Failure::Unanswered("no answer in time".to_owned());
        // Nothing was asked yet while only the token is missing.
        let token = match timeout_at(until, self.token(channel.clone())).await {
            Ok(token) => token?,
            Err(_) => return Err(Failure::NotDone("no token in time".to_owned())),
        };
        let request = stamped(question.clone(), token);
        match timeout_at(until, send(channel, request)).await.map_err(silent)? {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(Failure::of(&status)),
        }
    }

    /// A channel for a stream, with the request that opens it.
    pub(super) async fn open<Q>(
        &self,
        member: usize,
        question: Q,
    ) -> Result<(Channel, Request<Q>), Failure> {
        let channel = self.channels[member].clone();
        let token = self.token(channel.clone()).await?;
        Ok((channel, stamped(question, token)))
    }

    /// The member to ask.
    pub(super) fn member(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.channels.len()
    }

    /// Asks another member from now on, unless somebody else has moved on already.
    pub(super) fn give_up(&self, member: usize) {
        let next = (member + 1) % self.channels.len();
        let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn endpoint(&self, member: usize) -> &str {
        &self.endpoints[member]
    }

    pub(super) fn member_count(&self) -> u32 {
        u32::try_from(self.channels.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn forget_token(&self) {
        *self.token.lock().expect("nothing panics while it holds the token") = None;
    }

    /// The token that proves who we are, `None` where no credentials are needed.
    async fn token(&self, channel: Channel) -> Result<Option<MetadataValue<Ascii>>, Failure> {
        let Some(Credentials { user, password }) = self.credentials.clone() else {
            return Ok(None);
        };
        let known = self.token.lock().expect("nothing panics while it holds the token").clone();
        if known.is_some() {
            return Ok(known);
        }
        let request = AuthenticateRequest { name: user, password };
        let answer = match AuthClient::new(channel).authenticate(request).await {
            Ok(answer) => answer.into_inner(),
            // As etcd's own client: credentials that nobody asks for are no error.
            Err(status) if is_not_enabled(&status) => return Ok(None),
            Err(status) => {
                return Err(match Failure::of(&status) {
                    // Authenticating changes nothing, so nothing was done.
                    Failure::Unanswered(reason) => Failure::NotDone(reason),
                    failure => failure,
                });
            }
        };
        let token = MetadataValue::try_from(answer.token).map_err(|_| {
            Failure::Refused(Refusal::Invalid("etcd's token is not text".to_owned()))
        })?;
        *self.token.lock().expect("nothing panics while it holds the token") = Some(token.clone());
        Ok(Some(token))
    }
}

/// `hasleader` makes a member without a leader refuse at once instead of holding the request.
fn stamped<Q>(question: Q, token: Option<MetadataValue<Ascii>>) -> Request<Q> {
    let mut request = Request::new(question);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

fn is_not_enabled(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message().contains("not enabled")
}
