//! What a failed request to etcd says about its outcome.
//!
//! etcd tells its errors apart by text alone (its own client compares the same texts), so this is
//! the one place where text is matched. What is not known here is taken for a request whose outcome
//! is unknown.

use std::error::Error;

use ports::StoreError;
use tonic::{Code, ConnectError, Status};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// etcd answered, and will answer the same again.
    Refused(Refusal),
    /// Surely nothing happened; another member may do better.
    NotDone(String),
    /// It may or may not have happened.
    Unanswered(String),
    /// Our token is unknown to this member or too old.
    TokenEnded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Compacted,
    Future,
    LeaseEnded,
    Forbidden(String),
    Invalid(String),
}

impl Refusal {
    /// In the port's words where nothing but the text must be known.
    pub(super) fn told(self) -> StoreError {
        match self {
            Self::Forbidden(reason) => StoreError::Forbidden { reason },
            Self::Invalid(reason) => StoreError::Invalid { reason },
            Self::Compacted | Self::Future | Self::LeaseEnded => {
                StoreError::Invalid { reason: format!("etcd refused a request: {self:?}") }
            }
        }
    }
}

impl Failure {
    pub(super) fn of(status: &Status) -> Self {
        if was_never_connected(status) {
            return Self::NotDone(reason(status));
        }
        let text = status.message();
        match (status.code(), text) {
            (Code::OutOfRange, _) if text.contains("has been compacted") => {
                Self::Refused(Refusal::Compacted)
            }
            (Code::OutOfRange, _) if text.contains("future revision") => {
                Self::Refused(Refusal::Future)
            }
            (Code::NotFound, _) if text.contains("lease not found") => {
                Self::Refused(Refusal::LeaseEnded)
            }
            (Code::Unauthenticated, _) => Self::TokenEnded,
            // Users or roles changed since the token was given.
            (Code::InvalidArgument, _) if text.contains("auth store is old") => Self::TokenEnded,
            // etcd checks both before it proposes anything.
            (Code::Unavailable, "etcdserver: no leader")
            | (Code::ResourceExhausted, "etcdserver: too many requests") => {
                Self::NotDone(text.to_owned())
            }
            // A full database refuses writes until somebody makes room.
            (Code::ResourceExhausted, _) if text.contains("space exceeded") => {
                Self::NotDone(text.to_owned())
            }
            (Code::PermissionDenied, _) => Self::Refused(Refusal::Forbidden(text.to_owned())),
            (Code::InvalidArgument, _)
                if text.contains("authentication failed")
                    || text.contains("user name is empty") =>
            {
                Self::Refused(Refusal::Forbidden(text.to_owned()))
            }
            (Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented, _) => {
                Self::Refused(Refusal::Invalid(text.to_owned()))
            }
            _ => Self::Unanswered(reason(status)),
        }
    }
}

/// Whether TLS failed at certificates, ours or theirs. An etcd that does not take ours may only
/// hang up once the connection stands, which one that is away cannot do. Whether its alert is read
/// before the hang-up is noticed, and by a read or by a write, is a race that nobody decides.
pub(super) fn is_distrust(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    let told = ["certificate", "fatal alert"];
    let hung_up = ["connection closed", "connection reset", "broken pipe", "unexpected eof"];
    told.iter().chain(&hung_up).any(|word| reason.contains(word))
}

fn was_never_connected(status: &Status) -> bool {
    causes(status).any(<dyn Error>::is::<ConnectError>)
}

/// The whole chain in one line: the first text alone is often only "transport error".
fn reason(status: &Status) -> String {
    let mut reason = status.message().to_owned();
    for cause in causes(status) {
        let text = cause.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
    }
    reason
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |&cause| cause.source())
}
