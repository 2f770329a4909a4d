//! Membership records as one engine may see and change them.
//!
//! Who asks is judged by the records of the moment, read with the question: a controller that does
//! not lead, or has only just started, answers as the leader would.

use model::{
    Buried, Key, Membership, Node, Record, Revision, TargetRef, Txn, Undecodable, Volume, VolumeId,
};
use ports::{Entry, MembershipError, Memberships, Store, StoreError, TxnOutcome};
use reconcile::{AskRefusal, Asker, MembershipFacts, RecordFound, check_read, check_swap};
use tracing::warn;

use crate::limits::TOMBSTONES_AT_ONCE;

#[derive(Debug)]
pub(crate) struct OwnMemberships<S> {
    store: S,
    asker: Asker,
}

/// What the store holds about a question, at one revision.
#[derive(Debug, Default)]
struct Records {
    node: Kept<Node>,
    volume: Kept<Volume>,
    membership: Option<Membership>,
    tombstones: Vec<TargetRef>,
}

/// A record as it was read; `None` if there is none, an error if it does not decode.
type Kept<T> = Option<Result<T, Undecodable>>;

fn found<T>(kept: Option<&Result<T, Undecodable>>) -> RecordFound<'_, T> {
    match kept {
        None => RecordFound::Absent,
        Some(Ok(record)) => RecordFound::Read(record),
        Some(Err(_)) => RecordFound::Unreadable,
    }
}

impl Records {
    fn facts<'a>(&'a self, record: &'a Membership) -> MembershipFacts<'a> {
        let (node, volume) = (found(self.node.as_ref()), found(self.volume.as_ref()));
        MembershipFacts { node, volume, record, tombstones: &self.tombstones }
    }
}

impl<S: Store> OwnMemberships<S> {
    pub(crate) fn new(store: S, hello: &rpc::Hello, peer: Option<&pki::Peer>) -> Self {
        let (node, instance) = (hello.node, hello.instance);
        let certificate = peer.map(|peer| peer.name.clone());
        Self { store, asker: Asker { node, instance, certificate } }
    }

    async fn records(&self, volume: VolumeId) -> Result<Records, MembershipError> {
        let keys = [Key::Node(self.asker.node), Key::Volume(volume), Key::Membership(volume)];
        let (entries, _) =
            self.store.read(&keys.map(|key| key.to_string())).await.map_err(failure)?;
        let mut records = Records::default();
        for entry in &entries {
            records.take(volume, entry)?;
        }
        Ok(records)
    }

    /// Targets of the volume that the node was told to bury.
    async fn tombstones(&self, volume: VolumeId) -> Result<Vec<TargetRef>, MembershipError> {
        let prefix = format!("tombstone/{}/", self.asker.node);
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = self.store.list(&prefix, after.as_deref(), TOMBSTONES_AT_ONCE, None).await;
            let page = page.map_err(failure)?;
            found.extend(page.entries.iter().filter_map(|entry| buried(&entry.key, volume)));
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    fn refused(&self, volume: VolumeId, refusal: AskRefusal) -> MembershipError {
        let Asker { node, instance, .. } = &self.asker;
        warn!(%node, %instance, %volume, reason = %refusal, "a membership question was refused");
        MembershipError::Unusable { volume, reason: refusal.to_string() }
    }
}

impl<S: Store> Memberships for OwnMemberships<S> {
    async fn read(&self, volume: VolumeId) -> Result<Option<Membership>, MembershipError> {
        let mut records = self.records(volume).await?;
        let Some(record) = records.membership.take() else { return Ok(None) };
        let mut judged = check_read(&self.asker, &records.facts(&record));
        if judged == Err(AskRefusal::NoPart) {
            records.tombstones = self.tombstones(volume).await?;
            judged = check_read(&self.asker, &records.facts(&record));
        }
        judged.map_err(|refusal| self.refused(volume, refusal))?;
        Ok(Some(record))
    }

    async fn swap(&self, record: &Membership) -> Result<Revision, MembershipError> {
        let volume = record.volume;
        let mut records = self.records(volume).await?;
        let conflict = || MembershipError::Conflict { volume };
        let stored = records.membership.take().ok_or_else(conflict)?;
        // Who is too late, or was fenced, hears just that. The revision alone would do in a store
        // that never goes back; one that was restored may give the same number again.
        if (stored.revision, stored.epoch) != (record.revision, record.epoch) {
            return Err(conflict());
        }
        let judged = check_swap(&self.asker, &records.facts(&stored), record);
        judged.map_err(|refusal| self.refused(volume, refusal))?;
        let written = Record::Membership(Box::new(record.clone()));
        let txn = Txn::default().put(Key::Membership(volume), written, record.revision);
        match self.store.commit(&txn.encode()).await.map_err(failure)? {
            TxnOutcome::Committed { revision } => Ok(revision),
            TxnOutcome::Refused { .. } => Err(conflict()),
        }
    }
}

impl Records {
    fn take(&mut self, volume: VolumeId, entry: &Entry) -> Result<(), MembershipError> {
        let Ok(key) = entry.key.parse::<Key>() else { return Ok(()) };
        match (&key, Record::decode(&key, &entry.value, entry.modified)) {
            (_, Ok(Record::Node(node))) => self.node = Some(Ok(*node)),
            (_, Ok(Record::Volume(volume))) => self.volume = Some(Ok(*volume)),
            (_, Ok(Record::Membership(record))) => self.membership = Some(*record),
            (Key::Node(_), Err(error)) => self.node = Some(Err(error)),
            (Key::Volume(_), Err(error)) => self.volume = Some(Err(error)),
            (Key::Membership(_), Err(error)) => {
                return Err(MembershipError::Unusable { volume, reason: error.reason });
            }
            _ => {}
        }
        Ok(())
    }
}

fn buried(key: &str, of: VolumeId) -> Option<TargetRef> {
    match key.parse().ok()? {
        Key::Tombstone(node, Buried::Target { volume, epoch }) if volume == of => {
            Some(TargetRef { node, epoch })
        }
        _ => None,
    }
}

fn failure(error: StoreError) -> MembershipError {
    match error {
        StoreError::Unknown { .. } => MembershipError::Unknown,
        other => MembershipError::Unavailable { reason: other.to_string() },
    }
}
