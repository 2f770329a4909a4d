//! Ids that can be read: the label of a script (`n1`, `v3`) is packed into the id itself, so that a
//! trace needs no table and the same label is the same id in every run.

use model::{AttemptId, Era, HostId, InstanceId, NodeId, PoolId, ReplicaId, SnapshotId, VolumeId};
use uuid::Uuid;

/// An id holds sixteen bytes; one is left free so that packed ids differ from hashed ones.
pub const LABEL_LENGTH_MAX: usize = 15;

/// The id of a label. Longer labels are cut: the script's parser refuses them before.
pub fn pack(label: &str) -> Uuid {
    let bytes = label.bytes().take(LABEL_LENGTH_MAX);
    Uuid::from_u128(bytes.fold(0, |packed, byte| (packed << 8) | u128::from(byte)))
}

/// The label of a packed id; the first digits of any other one.
pub fn label(id: Uuid) -> String {
    let bytes: Vec<u8> = id.as_bytes().iter().copied().skip_while(|byte| *byte == 0).collect();
    if !bytes.is_empty()
        && bytes.len() <= LABEL_LENGTH_MAX
        && bytes.iter().all(u8::is_ascii_graphic)
    {
        return bytes.into_iter().map(char::from).collect();
    }
    format!("{:08x}", id.as_u128() >> 96)
}

pub fn node(label: &str) -> NodeId {
    NodeId(pack(label))
}

pub fn pool(label: &str) -> PoolId {
    PoolId(pack(label))
}

pub fn volume(label: &str) -> VolumeId {
    VolumeId(pack(label))
}

pub fn replica(label: &str) -> ReplicaId {
    ReplicaId(pack(label))
}

pub fn snapshot(label: &str) -> SnapshotId {
    SnapshotId(pack(label))
}

pub fn host(label: &str) -> HostId {
    HostId(pack(label))
}

pub fn attempt(label: &str) -> AttemptId {
    AttemptId(pack(label))
}

pub fn era(label: &str) -> Era {
    Era(pack(label))
}

/// One life of a process: `n1.3` is the third one of node `n1`'s engine.
pub fn instance(of: Uuid, life: u32) -> InstanceId {
    InstanceId(pack(&format!("{}.{life}", label(of))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reads_back_from_its_id() {
        for text in ["n1", "v12", "a-long-label-15", "n1.3"] {
            assert_eq!(label(pack(text)), text);
        }
        assert_eq!(label(instance(node("n1").0, 3).0), "n1.3");
        assert_eq!(label(Uuid::from_u128(u128::MAX)), "ffffffff");
    }
}
