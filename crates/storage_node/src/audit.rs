//! What a proof wants to know of a replica that no answer and no inventory tells.

use model::{Epoch, ReplicaId};

/// Something that happened to a replica, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// It answered a target of this epoch that older ones are shut out.
    Fenced { replica: ReplicaId, epoch: Epoch },
    /// Its pool has changed blocks for a session of this epoch; zero, if nobody knows the session.
    Changed { replica: ReplicaId, epoch: Epoch },
}
