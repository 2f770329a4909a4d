//! Pools and the replicas in them: everything that touches a disk.
//!
//! ```text
//!            OpenDisk                 no pool there, and one may be made
//!  absent ────────────▶ Opening ─┐  ┌──────────────▶ Formatting ─┐
//!                 ▲       │ busy │  │                            │
//!                 └── Busy ◀┘    └─▶ Importing ◀─────────────────┘
//!                                   │
//!                                   ├─▶ Open ─▶ Exported
//!                                   └─▶ Faulted, Missing, Refused
//! ```
//! What is missing or refused is looked for again, now and then and with each config. What is
//! faulted stays so until the process is started anew: nothing it holds can be trusted before.
//! A replica exists as long as its pool is open. Sessions of targets reach it through the port, or
//! by messages from a target of this node.

mod disk_faults;
mod pools;
mod replica_commands;
mod replicas;

use core::time::Duration;

use model::{InstanceId, PoolId, ReplicaId};
use nvme::target::Tag;
use pool::{IoId, Pool};

pub(crate) use self::{
    pools::{Absence, PoolEntry, PoolRequester, PoolState},
    replicas::ReplicaEntry,
};
use crate::{
    context::ShardContext,
    effect::{DiskFailure, DiskId, DiskIoId, Effect},
    registry::{Handle, Registry},
    slab::Slab,
};

#[derive(Debug, Default)]
pub(crate) struct Storage {
    pub(crate) pools: Registry<PoolId, PoolEntry>,
    pub(crate) replicas: Registry<ReplicaId, ReplicaEntry>,
    disk_ios: Slab<DiskWork>,
    /// Counts attempts to open a disk: completions of an earlier one are not taken for its own.
    attempts: u64,
    /// Counts imports of replicas.
    imports: u128,
}

/// An operation of a disk, and whom it is for.
#[derive(Debug)]
enum DiskWork {
    /// A command on a device that is served as it is.
    Device {
        tag: Tag,
    },
    Pool {
        pool: Handle<PoolId>,
        attempt: u64,
        io: IoId,
        began: Duration,
    },
    /// A part of a pool that is no more.
    Erase,
}

impl Storage {
    pub(crate) fn open_pool(&self, pool: PoolId) -> Option<&Pool> {
        match &self.pools.get(&pool)?.state {
            PoolState::Open(pool) => Some(pool),
            _ => None,
        }
    }

    /// Another one with every import, in this process and in every other.
    fn next_instance(&mut self, cx: &ShardContext) -> InstanceId {
        self.imports += 1;
        let base = cx.params.instance.0.as_u128();
        InstanceId(uuid::Uuid::from_u128(base.wrapping_add(self.imports)))
    }

    pub(crate) fn start_device_io(
        &mut self,
        cx: &mut ShardContext,
        tag: Tag,
        disk: DiskId,
        io: pool::Io,
    ) {
        let buffer = match io {
            pool::Io::Read { len, .. } => Some(block::Buffer::zeroed(len)),
            _ => None,
        };
        let tag = DiskIoId(self.disk_ios.insert(DiskWork::Device { tag }));
        cx.put(Effect::Disk { io: tag, disk, op: io, buffer, delay: None });
    }

    pub(crate) fn disk_done(
        &mut self,
        cx: &mut ShardContext,
        io: DiskIoId,
        result: Result<Option<block::Buffer>, DiskFailure>,
    ) {
        match self.disk_ios.remove(io.0) {
            Some(DiskWork::Device { tag }) => device_done(cx, tag, result),
            Some(DiskWork::Pool { pool, attempt, io, began }) => {
                let Some(entry) = self.pools.at_mut(pool) else { return };
                if entry.attempt == attempt {
                    entry.io.add(cx.now.saturating_sub(began));
                    entry.io_done(cx, pool, io, result);
                }
            }
            Some(DiskWork::Erase) => {
                if let Err(error) = result {
                    let reason = alloc::string::ToString::to_string(&error);
                    cx.log(crate::LogEvent::EraseFailed { reason });
                }
            }
            None => {}
        }
    }
}

fn device_done(
    cx: &mut ShardContext,
    tag: Tag,
    result: Result<Option<block::Buffer>, DiskFailure>,
) {
    let result = match result {
        Ok(Some(buffer)) => Ok(nvme::Reply::Data(buffer)),
        Ok(None) => Ok(nvme::Reply::Done),
        Err(error) => {
            let reason = alloc::string::ToString::to_string(&error);
            cx.log(crate::LogEvent::DeviceFailed { reason });
            Err(nvme::Code::InternalError.into())
        }
    };
    cx.port.complete_device(tag, result);
}
