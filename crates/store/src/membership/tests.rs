//! A membership record changes only under the hand that read it last.

use model::{Epoch, Membership, ReplicaId, VolumeId};
use ports::{MembershipError, Memberships, Store, Txn, Write};

use super::{Direct, key};
use crate::memory::{Bounds, Memory};

const VOLUME: VolumeId = VolumeId::from_u128(7);

async fn with(bytes: Vec<u8>) -> Direct<Memory> {
    let store = Memory::new(Bounds::default());
    let put = Write::Put { key: key(VOLUME), value: bytes, lease: None };
    store.commit(&Txn { compares: vec![], writes: vec![put] }).await.unwrap();
    Direct(store)
}

async fn founded() -> Direct<Memory> {
    let record = Membership::founded(VOLUME, [ReplicaId::from_u128(1)]);
    with(model::Record::Membership(Box::new(record)).encode()).await
}

/// ST-5.
#[tokio::test]
async fn a_record_is_replaced_only_as_it_was_read() {
    let records = founded().await;
    let mut mine = records.read(VOLUME).await.unwrap().unwrap();
    let theirs = mine.clone();
    mine.clean = false;
    mine.revision = records.swap(&mine).await.unwrap();
    assert_eq!(records.read(VOLUME).await.unwrap().unwrap(), mine);
    let late = records.swap(&theirs).await;
    assert_eq!(late, Err(MembershipError::Conflict { volume: VOLUME }));
}

/// ST-5: whoever has another epoch than the record does not write it, whatever it read.
#[tokio::test]
async fn only_the_epoch_of_the_record_may_write_it() {
    let records = founded().await;
    let mut record = records.read(VOLUME).await.unwrap().unwrap();
    record.epoch = Epoch(5);
    let refused = records.swap(&record).await;
    assert_eq!(refused, Err(MembershipError::Conflict { volume: VOLUME }));
}

/// ST-8.
#[tokio::test]
async fn a_record_that_does_not_decode_is_named() {
    let records = with(b"{".to_vec()).await;
    let error = records.read(VOLUME).await.unwrap_err();
    assert!(matches!(error, MembershipError::Unusable { volume: VOLUME, .. }), "{error:?}");
}

#[tokio::test]
async fn a_volume_without_a_record_has_none() {
    let records = founded().await;
    assert_eq!(records.read(VolumeId::from_u128(8)).await, Ok(None));
}
