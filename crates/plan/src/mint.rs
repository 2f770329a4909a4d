//! New ids, from the world alone: a pure planner has no randomness.

use model::{ReplicaId, Volume};

use crate::World;

/// The id of the next replica of a volume. The salt is the leader's own and random, so that a store
/// set back in time, which counts the same replicas again, still never makes an id twice. The
/// revision is for a volume that was deleted and is asked for again, by a late copy of a request:
/// it counts from zero in the same term.
pub fn replica_id(world: &World, volume: &Volume, offset: u32) -> ReplicaId {
    let count = u128::from(volume.layout.placed + offset) | u128::from(world.revision.0) << 32;
    let seed = volume.meta.id.0.as_u128() ^ world.salt.rotate_left(17);
    let high = mix(fold(seed) ^ fold(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let low = mix(high ^ fold(seed.rotate_left(64)).wrapping_add(fold(world.salt)));
    ReplicaId::from_u128((u128::from(high) << 64) | u128::from(low))
}

fn fold(value: u128) -> u64 {
    let bytes = value.to_le_bytes();
    let (low, high) = bytes.split_at(8);
    let word =
        |half: &[u8]| half.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    word(low) ^ word(high).rotate_left(32)
}

/// The finaliser of splitmix64: every input bit reaches every output bit.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use model::{Meta, Revision, Time, Volume, VolumeId, VolumeLayout, VolumeSpec};

    use super::*;

    #[test]
    fn ids_differ_by_volume_by_count_by_revision_and_by_term() {
        let mut seen = BTreeSet::new();
        for salt in 0..8 {
            for id in 0..32 {
                let mut world = World::default();
                world.salt = salt;
                let mut volume = Volume {
                    meta: Meta::new(VolumeId::from_u128(id), "v", Time(0)),
                    spec: VolumeSpec::default(),
                    layout: VolumeLayout::default(),
                };
                for placed in 0..32 {
                    volume.layout.placed = placed;
                    for revision in 0..4 {
                        world.revision = Revision(revision);
                        assert!(seen.insert(replica_id(&world, &volume, 0)));
                    }
                }
            }
        }
    }
}
