//! The store port as requests to etcd.

use core::time::Duration;
use std::sync::Arc;

use ports::{
    Entry, Kept, Key, LeaseId, LeaseRequest, Page, Revision, Store, StoreError, Txn, TxnOutcome,
};
use tonic::{Request, Response, Status, transport::Channel};

use super::{
    config::Config,
    connection::{Connection, Nature, NoAnswer},
    convert::{Namespace, at_header, lease_number, number},
    failure::{Refusal, is_distrust},
    watch::EtcdWatch,
    wire::{
        CompactionRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
        LeaseRevokeRequest, RangeRequest, RangeResponse, StatusRequest, TxnRequest, TxnResponse,
        kv_client::KvClient, lease_client::LeaseClient, maintenance_client::MaintenanceClient,
    },
};
use crate::limits;

/// The largest page that `limits` allow, and half as much again for keys and encoding.
const ANSWER_BYTES_MAX: usize = limits::PAGE_ENTRIES_MAX * limits::VALUE_BYTES_MAX * 3 / 2;

/// A namespace of an etcd cluster. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Etcd {
    connection: Arc<Connection>,
    namespace: Namespace,
    has_tls: bool,
}

impl Etcd {
    /// Connects, and reads once to see that the namespace may be read.
    pub async fn connect(config: &Config) -> Result<Self, StoreError> {
        let etcd = Self::new(config)?;
        etcd.check().await?;
        Ok(etcd)
    }

    /// Connects when it is used, and each time again: it may be away now.
    pub fn new(config: &Config) -> Result<Self, StoreError> {
        let connection = Arc::new(Connection::new(config)?);
        let namespace = Namespace(config.namespace.clone());
        Ok(Self { connection, namespace, has_tls: config.tls.is_some() })
    }

    /// Whether it answers, and lets us read. Certificates that one side does not take are told
    /// apart from an etcd that is away: no waiting mends them.
    pub async fn check(&self) -> Result<(), StoreError> {
        match self.newest().await {
            Err(StoreError::Unavailable { reason }) if self.has_tls && is_distrust(&reason) => {
                let reason = format!("{reason}: see whether it takes our certificate, and we its");
                Err(StoreError::Forbidden { reason })
            }
            found => found.map(drop),
        }
    }

    /// The version of the member that answers.
    pub async fn version(&self) -> Result<String, StoreError> {
        let status =
            |channel, request| async move { MaintenanceClient::new(channel).status(request).await };
        Ok(self.connection.call(Nature::Read, &StatusRequest {}, status).await?.version)
    }

    async fn newest(&self) -> Result<Revision, StoreError> {
        let key = self.namespace.key("");
        let request = RangeRequest { key, limit: 1, ..RangeRequest::default() };
        Ok(at_header(self.connection.call(Nature::Read, &request, range).await?.header))
    }

    /// Names the revisions that etcd's own refusal leaves out.
    async fn refused_revision(&self, no_answer: NoAnswer, asked: Revision) -> StoreError {
        match no_answer {
            // etcd does not say where its history begins, only that it is later.
            NoAnswer::Refused(Refusal::Compacted) => StoreError::Compacted { oldest: asked.next() },
            NoAnswer::Refused(Refusal::Future) => match self.newest().await {
                Ok(newest) => StoreError::Future { asked, newest },
                Err(error) => error,
            },
            no_answer => no_answer.into(),
        }
    }

    async fn grant(&self, ttl: Duration) -> Result<Kept, StoreError> {
        // etcd counts whole seconds; a lease that lives longer than asked for is safe.
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let request = LeaseGrantRequest { ttl: i64::try_from(seconds).unwrap_or(i64::MAX), id: 0 };
        let grant =
            |channel, request| async move { LeaseClient::new(channel).lease_grant(request).await };
        let granted = self.connection.call(Nature::Write, &request, grant).await?;
        let lease = LeaseId(u64::try_from(granted.id).unwrap_or(0));
        Ok(Kept { lease, ttl: seconds_of(granted.ttl) })
    }

    async fn renew(&self, lease: LeaseId) -> Result<Kept, StoreError> {
        let request = LeaseKeepAliveRequest { id: lease_number(lease) };
        let renewed = self.connection.call(Nature::Write, &request, keep_alive).await;
        let renewed = renewed.map_err(|no_answer| of_lease(no_answer, lease))?;
        // That is how etcd says that a lease has ended.
        if renewed.ttl <= 0 {
            return Err(StoreError::LeaseEnded { lease });
        }
        Ok(Kept { lease, ttl: seconds_of(renewed.ttl) })
    }

    async fn revoke(&self, lease: LeaseId) -> Result<Kept, StoreError> {
        let request = LeaseRevokeRequest { id: lease_number(lease) };
        let revoke =
            |channel, request| async move { LeaseClient::new(channel).lease_revoke(request).await };
        let revoked = self.connection.call(Nature::Write, &request, revoke).await;
        revoked.map_err(|no_answer| of_lease(no_answer, lease))?;
        Ok(Kept { lease, ttl: Duration::ZERO })
    }
}

impl Store for Etcd {
    type Watch = EtcdWatch;

    async fn read(&self, keys: &[Key]) -> Result<(Vec<Entry>, Revision), StoreError> {
        limits::check_read(keys)?;
        let request = self.namespace.read(keys);
        let answer = self.connection.call(Nature::Read, &request, transact).await?;
        Ok((self.namespace.found(answer.responses)?, at_header(answer.header)))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> Result<Page, StoreError> {
        // Zero would mean "now" to etcd, and nothing was ever there.
        if at == Some(Revision::ZERO) {
            return Err(StoreError::Compacted { oldest: Revision(1) });
        }
        let key = match after {
            Some(after) if after >= prefix => self.namespace.key(&format!("{after}\0")),
            _ => self.namespace.key(prefix),
        };
        let request = RangeRequest {
            key,
            range_end: self.namespace.end_of(prefix),
            limit: i64::try_from(limits::page_entries(limit)).unwrap_or(i64::MAX),
            revision: at.map_or(0, number),
        };
        let answer = match self.connection.call(Nature::Read, &request, range).await {
            Ok(answer) => answer,
            Err(no_answer) => {
                return Err(self.refused_revision(no_answer, at.unwrap_or_default()).await);
            }
        };
        let entries = answer.kvs.into_iter().map(|found| self.namespace.entry(found));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let next = entries.last().filter(|_| answer.more).map(|entry| entry.key.clone());
        Ok(Page { entries, revision: at.unwrap_or(at_header(answer.header)), next })
    }

    async fn commit(&self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        limits::check_txn(txn)?;
        let request = self.namespace.txn(txn);
        // Without writes there is nothing that could happen twice.
        let nature = if txn.writes.is_empty() { Nature::Read } else { Nature::Write };
        let answer = match self.connection.call(nature, &request, transact).await {
            Ok(answer) => answer,
            Err(NoAnswer::Refused(Refusal::LeaseEnded)) => {
                return Err(lease_of(txn)
                    .map_or(Refusal::LeaseEnded.told(), |lease| StoreError::LeaseEnded { lease }));
            }
            Err(no_answer) => return Err(no_answer.into()),
        };
        let revision = at_header(answer.header);
        if answer.succeeded {
            return Ok(TxnOutcome::Committed { revision });
        }
        self.namespace.refused(txn, answer.responses, revision)
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<EtcdWatch, StoreError> {
        EtcdWatch::open(self.connection.clone(), self.namespace.clone(), prefix, from).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Kept, StoreError> {
        limits::check_lease(request)?;
        match request {
            LeaseRequest::Grant { ttl } => self.grant(ttl).await,
            LeaseRequest::Renew { lease } => self.renew(lease).await,
            LeaseRequest::Revoke { lease } => self.revoke(lease).await,
        }
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        // etcd forgets up to and including its revision, also a deletion at just that one.
        let last = Revision(before.0.saturating_sub(1));
        if last == Revision::ZERO {
            return Ok(());
        }
        let request = CompactionRequest { revision: number(last) };
        let compact =
            |channel, request| async move { KvClient::new(channel).compact(request).await };
        match self.connection.call(Nature::Write, &request, compact).await {
            Ok(_) | Err(NoAnswer::Refused(Refusal::Compacted)) => Ok(()),
            Err(no_answer) => Err(self.refused_revision(no_answer, before).await),
        }
    }
}

async fn range(
    channel: Channel,
    request: Request<RangeRequest>,
) -> Result<Response<RangeResponse>, Status> {
    KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX).range(request).await
}

async fn transact(
    channel: Channel,
    request: Request<TxnRequest>,
) -> Result<Response<TxnResponse>, Status> {
    KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX).txn(request).await
}

/// One renewal over a stream of its own: a renewal every second does not need to keep one open.
async fn keep_alive(
    channel: Channel,
    request: Request<LeaseKeepAliveRequest>,
) -> Result<Response<LeaseKeepAliveResponse>, Status> {
    let request = request.map(tokio_stream::once);
    let mut answers = LeaseClient::new(channel).lease_keep_alive(request).await?.into_inner();
    let answer = answers.message().await?;
    answer.map(Response::new).ok_or_else(|| Status::unknown("etcd closed the stream unanswered"))
}

/// The lease that a transaction binds keys to; all of ours bind to one.
fn lease_of(txn: &Txn) -> Option<LeaseId> {
    txn.writes.iter().find_map(|write| match write {
        ports::Write::Put { lease, .. } => *lease,
        ports::Write::Delete { .. } => None,
    })
}

fn of_lease(no_answer: NoAnswer, lease: LeaseId) -> StoreError {
    match no_answer {
        NoAnswer::Refused(Refusal::LeaseEnded) => StoreError::LeaseEnded { lease },
        no_answer => no_answer.into(),
    }
}

fn seconds_of(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}
