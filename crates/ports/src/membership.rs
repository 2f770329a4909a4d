//! The membership port: how the engine that serves a target reads and changes its record.
//!
//! The one place where data leads control: straight to etcd, or through the controller where the
//! store is embedded. No leader's lease guards it, only the epoch and the revision do.

use core::future::Future;

use model::{Membership, Revision, VolumeId};

pub trait Memberships: Send + Sync {
    /// The record as it is now; `None` if the volume has none.
    fn read(
        &self,
        volume: VolumeId,
    ) -> impl Future<Output = Result<Option<Membership>, MembershipError>> + Send;

    /// Replaces the record that was read at `record.revision`, if nobody changed it since and its
    /// epoch is still `record.epoch`. Answers the new revision.
    fn swap(
        &self,
        record: &Membership,
    ) -> impl Future<Output = Result<Revision, MembershipError>> + Send;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum MembershipError {
    /// Read again: the epoch may have gone up.
    #[error("the record of {volume} changed since it was read")]
    Conflict { volume: VolumeId },
    /// Nothing was written.
    #[error("the store cannot be reached: {reason}")]
    Unavailable { reason: String },
    /// It may or may not have been written: read until it is known.
    #[error("no answer from the store: the outcome is unknown")]
    Unknown,
    #[error("the record of {volume} cannot be used: {reason}")]
    Unusable { volume: VolumeId, reason: String },
}
