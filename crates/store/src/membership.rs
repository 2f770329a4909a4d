//! Membership records on any store.

use model::{Key, Membership, Record, Revision, Txn, VolumeId};
use ports::{Entry, MembershipError, Memberships, Store, StoreError, TxnOutcome};

/// Reads and changes membership records straight in a store.
#[derive(Clone, Debug)]
pub struct Direct<S>(pub S);

impl<S: Store> Memberships for Direct<S> {
    async fn read(&self, volume: VolumeId) -> Result<Option<Membership>, MembershipError> {
        let (entries, _) = self.0.read(&[key(volume)]).await.map_err(failure)?;
        entries.first().map(|entry| decode(volume, entry)).transpose()
    }

    async fn swap(&self, record: &Membership) -> Result<Revision, MembershipError> {
        let volume = record.volume;
        let found = self.read(volume).await?;
        // The revision alone would do in a store that never goes back. One that was restored may
        // give the same number again, so the epoch is compared too.
        let same = |now: &Membership| now.revision == record.revision && now.epoch == record.epoch;
        if !found.is_some_and(|now| same(&now)) {
            return Err(MembershipError::Conflict { volume });
        }
        let written = Record::Membership(Box::new(record.clone()));
        let txn = Txn::default().put(Key::Membership(volume), written, record.revision);
        match self.0.commit(&txn.encode()).await.map_err(failure)? {
            TxnOutcome::Committed { revision } => Ok(revision),
            TxnOutcome::Refused { .. } => Err(MembershipError::Conflict { volume }),
        }
    }
}

fn key(volume: VolumeId) -> String {
    Key::Membership(volume).to_string()
}

fn decode(volume: VolumeId, entry: &Entry) -> Result<Membership, MembershipError> {
    let unusable = |reason| MembershipError::Unusable { volume, reason };
    let key = Key::Membership(volume);
    match Record::decode(&key, &entry.value, entry.modified) {
        Ok(Record::Membership(record)) => Ok(*record),
        Ok(_) => Err(unusable("it is another kind of record".into())),
        Err(error) => Err(unusable(error.reason)),
    }
}

fn failure(error: StoreError) -> MembershipError {
    match error {
        StoreError::Unknown { .. } => MembershipError::Unknown,
        other => MembershipError::Unavailable { reason: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
