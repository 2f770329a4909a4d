//! What makes one pool better than another: balance by bytes, not by count.

mod count;
mod free;
mod promised;

use model::PoolId;

use crate::World;

/// Higher is better. Bytes that nobody was promised weigh most, then bytes not written, and the
/// number of replicas only separates equals.
pub fn total(world: &World, pool: PoolId) -> i64 {
    promised::score(world, pool) * 6 + free::score(world, pool) * 3 - count::score(world, pool)
}

/// Bytes in MiB, so that sums of weighted scores stay far from the limits of an `i64`.
fn mebibytes(bytes: model::Bytes) -> i64 {
    i64::try_from(bytes.0 >> 20).unwrap_or(i64::MAX / 64)
}
