//! What happened on the node, as lines of the log.

use storage_node::{LogEvent, TargetKey};
use tracing::{debug, error, info, warn};

pub fn write(event: LogEvent) {
    match event {
        LogEvent::WaitingForDisk { pool, reason } => info!(%pool, %reason, "waiting for the disk"),
        LogEvent::PoolImported { pool, stop, replayed } => {
            info!(%pool, ?stop, replayed, "pool imported");
        }
        LogEvent::FormattingPool { pool, reason } => {
            info!(%pool, %reason, "no pool there: making one");
        }
        LogEvent::PoolRefused { pool, reason } => warn!(%pool, %reason, "pool refused"),
        LogEvent::PoolFaulted { pool, reason } => error!(%pool, %reason, "pool faulted"),
        LogEvent::PoolErased { pool } => info!(%pool, "pool erased"),
        LogEvent::EraseFailed { reason } => warn!(%reason, "a pool could not be erased"),
        LogEvent::ConfigRefused { pool, what, reason } => {
            warn!(%pool, %what, %reason, "a pool refused what the config wants");
        }
        LogEvent::DeviceFailed { reason } => warn!(%reason, "a device failed"),
        LogEvent::ReplicaCreated { pool, replica } => info!(%replica, %pool, "replica created"),
        LogEvent::ReplicaDestroyed { pool, replica } => info!(%replica, %pool, "replica destroyed"),
        LogEvent::NoAddress { node } => debug!(%node, "no address for the node of a replica"),
        LogEvent::ReplicaUnreachable { replica, reason } => {
            debug!(%replica, %reason, "the session with a replica ended");
        }
        LogEvent::HostReconnected { host } => {
            debug!(%host, "a host connected again: its earlier session ends");
        }
        LogEvent::TargetStarting { target: TargetKey { volume, epoch } } => {
            info!(%volume, %epoch, "target starting");
        }
        LogEvent::TargetEnded { target: TargetKey { volume, epoch } } => {
            info!(%volume, %epoch, "target ended");
        }
        LogEvent::TargetFailedOnPurpose { target: TargetKey { volume, epoch } } => {
            warn!(%volume, %epoch, "target ended on purpose, for a drill");
        }
        LogEvent::TargetUnreachable { volume, reason } => {
            error!(%volume, "the target cannot be exported: {reason}");
        }
        LogEvent::Target { target, notice } => target_notice(target, &notice),
    }
}

fn target_notice(target: TargetKey, notice: &mirror::Notice) {
    use mirror::Notice;
    let TargetKey { volume, epoch } = target;
    match notice {
        Notice::Serving => info!(%volume, %epoch, "target serving"),
        Notice::Lost { replica, why } => warn!(%volume, %replica, ?why, "replica lost"),
        Notice::Excluded { replica } => warn!(%volume, %replica, "replica excluded"),
        Notice::Returned { replica, is_partial } => {
            info!(%volume, %replica, is_partial, "replica returned");
        }
        Notice::Admitted { replica } => info!(%volume, %replica, "replica healthy again"),
        Notice::SetBack { replica } => {
            warn!(%volume, %replica, "replica's disk was set back, it is copied whole");
        }
        Notice::SelfFenced => warn!(%volume, %epoch, "target fenced by a higher epoch"),
        Notice::UnflushedLost => {
            warn!(%volume, "no replica was intact: writes that were not flushed may be gone");
        }
        Notice::RecordOlder => warn!(%volume, "the store knows less than the replicas"),
        Notice::SnapshotBrought { replica, snapshot } => {
            info!(%volume, %replica, %snapshot, "snapshot brought to a replica");
        }
        Notice::SnapshotFailed { snapshot } => warn!(%volume, %snapshot, "snapshot failed"),
    }
}
