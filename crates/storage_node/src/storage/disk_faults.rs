//! Faults of a pool's disk, on purpose.

use core::{ops::Range, time::Duration};

use pool::{Io, IoError};

use super::Storage;
use crate::InjectedFault;

/// The system's number for an input/output error.
pub(super) const EIO: i32 = 5;

#[derive(Debug, Default)]
pub(crate) struct DiskFaults {
    fails_writes: bool,
    fails_syncs: bool,
    fails_reads: Option<Range<u64>>,
    pub(super) slow: Option<Duration>,
}

impl DiskFaults {
    pub(super) fn failure(&self, io: &Io) -> Option<IoError> {
        let fails = match io {
            Io::Read { offset, len } => self.fails_reads.as_ref().is_some_and(|bad| {
                *offset < bad.end && bad.start < offset.saturating_add(*len as u64)
            }),
            Io::Write { .. } => self.fails_writes,
            Io::Sync => self.fails_syncs,
            Io::Discard { .. } => false,
        };
        fails.then_some(IoError { code: EIO })
    }
}

impl Storage {
    /// True if the fault is one of a disk; false if its pool is not here.
    pub(crate) fn inject_disk_fault(&mut self, fault: InjectedFault) -> Result<(), &'static str> {
        let (InjectedFault::FailWrites { pool }
        | InjectedFault::FailSyncs { pool }
        | InjectedFault::FailReads { pool, .. }
        | InjectedFault::Slow { pool, .. }) = fault
        else {
            return Ok(());
        };
        let entry = self.pools.get_mut(&pool).ok_or("there is no such pool")?;
        match fault {
            InjectedFault::FailWrites { .. } => entry.faults.fails_writes = true,
            InjectedFault::FailSyncs { .. } => entry.faults.fails_syncs = true,
            InjectedFault::FailReads { offset, len, .. } => {
                entry.faults.fails_reads = Some(offset..offset.saturating_add(len));
            }
            InjectedFault::Slow { by, .. } => entry.faults.slow = Some(by),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn heal_disks(&mut self) {
        self.pools.each(|_, entry| entry.faults = DiskFaults::default());
    }
}
