//! The port's words in etcd's, and back.

use ports::{
    Change, Compare, Entry, Expect, Key, LeaseId, Revision, StoreError, Txn, TxnOutcome,
    WatchEvent, Write,
};

use super::wire::{
    self, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseHeader,
    ResponseOp, TxnRequest,
    compare::{CompareResult, CompareTarget, TargetUnion},
    request_op::Request,
    response_op::Response,
};

/// Puts the namespace before keys and takes it off again.
#[derive(Clone, Debug)]
pub(super) struct Namespace(pub(super) String);

impl Namespace {
    pub(super) fn key(&self, key: &str) -> Vec<u8> {
        [self.0.as_bytes(), key.as_bytes()].concat()
    }

    /// The first key behind all keys that start with `prefix`.
    pub(super) fn end_of(&self, prefix: &str) -> Vec<u8> {
        let mut end = self.key(prefix);
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return end;
            }
        }
        // Unreachable with text, which has no byte 255; etcd reads it as the end of all keys.
        vec![0]
    }

    pub(super) fn entry(&self, found: KeyValue) -> Result<Entry, StoreError> {
        Ok(Entry {
            key: self.plain(found.key)?,
            value: found.value,
            created: revision(found.create_revision),
            modified: revision(found.mod_revision),
            lease: u64::try_from(found.lease).ok().filter(|lease| *lease != 0).map(LeaseId),
        })
    }

    fn plain(&self, key: Vec<u8>) -> Result<Key, StoreError> {
        let text = String::from_utf8(key).map_err(|error| StoreError::Damaged {
            reason: format!("a key in etcd is not text: {}", error.as_bytes().escape_ascii()),
        })?;
        match text.strip_prefix(&self.0) {
            Some(key) => Ok(key.to_owned()),
            None => Err(unexpected(&format!("the key {text} from outside {}", self.0))),
        }
    }

    pub(super) fn read(&self, keys: &[Key]) -> TxnRequest {
        let success = keys.iter().map(|key| self.range_of(key)).collect();
        TxnRequest { compare: vec![], success, failure: vec![] }
    }

    pub(super) fn txn(&self, txn: &Txn) -> TxnRequest {
        TxnRequest {
            compare: txn.compares.iter().map(|compare| self.compare(compare)).collect(),
            success: txn.writes.iter().map(|write| self.write(write)).collect(),
            failure: txn.compares.iter().map(|compare| self.range_of(&compare.key)).collect(),
        }
    }

    fn range_of(&self, key: &str) -> RequestOp {
        let range = RangeRequest { key: self.key(key), ..RangeRequest::default() };
        RequestOp { request: Some(Request::RequestRange(range)) }
    }

    fn compare(&self, compare: &Compare) -> wire::Compare {
        let (target, value) = match compare.expect {
            Expect::Absent => (CompareTarget::Create, TargetUnion::CreateRevision(0)),
            Expect::ModifiedAt(at) => (CompareTarget::Mod, TargetUnion::ModRevision(exactly(at))),
            Expect::CreatedAt(at) => {
                (CompareTarget::Create, TargetUnion::CreateRevision(exactly(at)))
            }
        };
        wire::Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: self.key(&compare.key),
            target_union: Some(value),
        }
    }

    fn write(&self, write: &Write) -> RequestOp {
        let request = match write {
            Write::Put { key, value, lease } => Request::RequestPut(PutRequest {
                key: self.key(key),
                value: value.clone(),
                lease: lease.map_or(0, lease_number),
            }),
            Write::Delete { key } => {
                Request::RequestDeleteRange(DeleteRangeRequest { key: self.key(key) })
            }
        };
        RequestOp { request: Some(request) }
    }

    /// The entries that a transaction of reads found.
    pub(super) fn found(&self, responses: Vec<ResponseOp>) -> Result<Vec<Entry>, StoreError> {
        let found = responses.into_iter().flat_map(|response| match response.response {
            Some(Response::ResponseRange(range)) => range.kvs,
            _ => vec![],
        });
        found.map(|found| self.entry(found)).collect()
    }

    /// Which compare failed, from what all the compared keys were at that revision.
    pub(super) fn refused(
        &self,
        txn: &Txn,
        responses: Vec<ResponseOp>,
        revision: Revision,
    ) -> Result<TxnOutcome, StoreError> {
        let found = self.found(responses)?;
        for Compare { key, expect } in &txn.compares {
            let there = found.iter().find(|entry| entry.key == *key);
            if !expect.holds(there) {
                let (key, found) = (key.clone(), there.cloned());
                return Ok(TxnOutcome::Refused { key, found, revision });
            }
        }
        Err(unexpected("a refusal although every compare holds"))
    }

    /// The events of one answer from `from` on, one for each revision.
    pub(super) fn events(
        &self,
        events: Vec<wire::Event>,
        from: Revision,
    ) -> Result<Vec<WatchEvent>, StoreError> {
        let mut grouped: Vec<WatchEvent> = Vec::new();
        for event in events {
            let is_delete = event.r#type() == wire::event::EventType::Delete;
            let found = event.kv.ok_or_else(|| unexpected("an event without a key"))?;
            let modified = revision(found.mod_revision);
            if modified < from {
                continue;
            }
            let change = if is_delete {
                Change::Deleted { key: self.plain(found.key)?, modified }
            } else {
                Change::Put(self.entry(found)?)
            };
            match grouped.last_mut().filter(|last| last.revision == modified) {
                Some(last) => last.changes.push(change),
                None => grouped.push(WatchEvent { revision: modified, changes: vec![change] }),
            }
        }
        Ok(grouped)
    }
}

pub(super) fn at_header(header: Option<ResponseHeader>) -> Revision {
    revision(header.map_or(0, |header| header.revision))
}

/// etcd's numbers are signed but never negative.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

pub(super) fn lease_number(lease: LeaseId) -> i64 {
    i64::try_from(lease.0).unwrap_or(i64::MAX)
}

/// etcd takes revision 0 for "absent"; no key is present at it, so nothing may hold.
fn exactly(at: Revision) -> i64 {
    if at == Revision::ZERO { -1 } else { number(at) }
}

pub(super) fn unexpected(what: &str) -> StoreError {
    StoreError::Damaged { reason: format!("etcd answered with {what}") }
}
