//! A watch that goes on over lost connections without a gap.
//!
//! ```text
//!   open ──▶ listening ──▶ lost ──▶ listening (from the first revision not yet handed out)
//!               │            └──▶ over: Unavailable, nobody answered for the request timeout
//!               └──▶ over: Compacted, Forbidden
//! ```
//! A member that is silent is asked for its progress, so that one that hangs is told from one where
//! nothing happens.

use core::time::Duration;
use std::{collections::VecDeque, sync::Arc};

use ports::{Revision, StoreError, Watch, WatchEvent};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tracing::debug;

use super::{
    connection::Connection,
    convert::{Namespace, number, revision},
    failure::{Failure, Refusal},
    wire::{
        WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
        watch_client::WatchClient, watch_request::RequestUnion,
    },
};
use crate::limits;

/// Between two tries to connect again: short against a member's restart, long against its work.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// etcd puts at most 1,000 revisions into one answer, each at most a transaction of ours.
const ANSWER_BYTES_MAX: usize = 1000 * limits::TXN_BYTES_MAX;

#[derive(Debug)]
pub struct EtcdWatch {
    connection: Arc<Connection>,
    namespace: Namespace,
    prefix: String,
    /// The first revision that was not handed out yet.
    next: Revision,
    ready: VecDeque<WatchEvent>,
    state: State,
}

#[derive(Debug)]
enum State {
    Listening(Box<Stream>),
    Lost { since: Instant, reason: String },
}

#[derive(Debug)]
struct Stream {
    member: usize,
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
    is_asked_for_progress: bool,
    /// An answer that came instead of the expected one when the stream was opened.
    early: Option<WatchResponse>,
}

/// What the stream said, before anything is decided about it.
enum Heard {
    Response(WatchResponse),
    Silence,
    Broken(String),
}

impl EtcdWatch {
    pub(super) async fn open(
        connection: Arc<Connection>,
        namespace: Namespace,
        prefix: &str,
        from: Revision,
    ) -> Result<Self, StoreError> {
        let lost = State::Lost { since: Instant::now(), reason: "not yet connected".to_owned() };
        let mut watch = Self {
            connection,
            namespace,
            prefix: prefix.to_owned(),
            next: from,
            ready: VecDeque::new(),
            state: lost,
        };
        watch.listen().await?;
        Ok(watch)
    }

    /// Connects until it works or nobody has answered for the request timeout.
    async fn listen(&mut self) -> Result<(), StoreError> {
        while let State::Lost { since, reason } = &self.state {
            let since = *since;
            let deadline = since + self.connection.request_timeout;
            let member = self.connection.member();
            if Instant::now() >= deadline {
                let endpoint = self.connection.endpoint(member);
                let reason = format!("etcd at {endpoint}: the watch is lost: {reason}");
                return Err(StoreError::Unavailable { reason });
            }
            let patience = self.connection.request_timeout / self.connection.member_count();
            let until = deadline.min(Instant::now() + patience);
            let failure = match timeout_at(until, self.connect(member)).await {
                Ok(Ok(stream)) => {
                    self.state = State::Listening(Box::new(stream));
                    return Ok(());
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Unanswered("no answer in time".to_owned()),
            };
            self.connection.give_up(member);
            let reason = match failure {
                Failure::Refused(refusal) => return Err(refusal.told()),
                Failure::TokenEnded => "the token has ended".to_owned(),
                Failure::NotDone(reason) | Failure::Unanswered(reason) => reason,
            };
            // A member that restarted knows none of the tokens that it gave before.
            self.connection.forget_token();
            self.state = State::Lost { since, reason };
            sleep(RETRY_PAUSE).await;
        }
        Ok(())
    }

    async fn connect(&self, member: usize) -> Result<Stream, Failure> {
        let (requests, receiver) = mpsc::channel(1);
        // One revision earlier than asked for: etcd serves a watch that starts at the very revision
        // that it compacted, but without the deletions at that revision.
        let start = self.next.0.saturating_sub(1).max(1);
        let create = WatchCreateRequest {
            key: self.namespace.key(&self.prefix),
            range_end: self.namespace.end_of(&self.prefix),
            start_revision: number(Revision(start)),
        };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let broken = |_| Failure::Unanswered("the stream is closed".to_owned());
        requests.try_send(create).map_err(broken)?;
        let question = ReceiverStream::new(receiver);
        let (channel, request) = self.connection.open(member, question).await?;
        let opened = WatchClient::new(channel)
            .max_decoding_message_size(ANSWER_BYTES_MAX)
            .watch(request)
            .await
            .map_err(|status| Failure::of(&status))?;
        let mut responses = opened.into_inner();
        let early = match responses.message().await {
            Ok(Some(response)) if response.canceled && response.compact_revision == 0 => {
                return Err(refused(&response));
            }
            Ok(Some(response)) => Some(response).filter(|response| response.canceled),
            Ok(None) => return Err(Failure::Unanswered("etcd closed the stream".to_owned())),
            Err(status) => return Err(Failure::of(&status)),
        };
        Ok(Stream { member, requests, responses, is_asked_for_progress: false, early })
    }

    /// Decides what follows from what was heard.
    fn take(&mut self, heard: Heard) -> Result<(), StoreError> {
        let State::Listening(stream) = &mut self.state else { return Ok(()) };
        let reason = match heard {
            Heard::Response(response) if response.canceled => {
                if response.compact_revision > 0 {
                    let oldest = revision(response.compact_revision).next();
                    return Err(StoreError::Compacted { oldest });
                }
                match refused(&response) {
                    Failure::Refused(refusal) => return Err(refusal.told()),
                    _ => response.cancel_reason,
                }
            }
            Heard::Response(response) => {
                stream.is_asked_for_progress = false;
                let events = self.namespace.events(response.events, self.next)?;
                if let Some(last) = events.last() {
                    self.next = last.revision.next();
                }
                self.ready.extend(events);
                return Ok(());
            }
            Heard::Silence if !stream.is_asked_for_progress => {
                stream.is_asked_for_progress = true;
                let ask = RequestUnion::ProgressRequest(WatchProgressRequest {});
                match stream.requests.try_send(WatchRequest { request_union: Some(ask) }) {
                    Ok(()) => return Ok(()),
                    Err(_) => "the stream is closed".to_owned(),
                }
            }
            Heard::Silence => "the member is silent".to_owned(),
            Heard::Broken(reason) => reason,
        };
        self.connection.give_up(stream.member);
        debug!(revision = %self.next, %reason, "watch lost");
        self.state = State::Lost { since: Instant::now(), reason };
        Ok(())
    }
}

impl Stream {
    /// Silence of half a request timeout is asked about, and after another half a loss.
    async fn hear(&mut self, patience: Duration) -> Heard {
        if let Some(response) = self.early.take() {
            return Heard::Response(response);
        }
        match timeout(patience, self.responses.message()).await {
            Ok(Ok(Some(response))) => Heard::Response(response),
            Ok(Ok(None)) => Heard::Broken("etcd closed the stream".to_owned()),
            Ok(Err(status)) => Heard::Broken(status.message().to_owned()),
            Err(_) => Heard::Silence,
        }
    }
}

impl Watch for EtcdWatch {
    async fn next(&mut self) -> Result<WatchEvent, StoreError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            self.listen().await?;
            let patience = self.connection.request_timeout / 2;
            if let State::Listening(stream) = &mut self.state {
                let heard = stream.hear(patience).await;
                self.take(heard)?;
            }
        }
    }
}

/// Why etcd does not watch for us. Its reasons are those of requests, as text.
fn refused(response: &WatchResponse) -> Failure {
    let reason = response.cancel_reason.clone();
    if reason.contains("permission denied") {
        return Failure::Refused(Refusal::Forbidden(reason));
    }
    Failure::Unanswered(reason)
}
