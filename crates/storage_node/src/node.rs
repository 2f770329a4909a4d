//! The machine: what happens goes in by its methods, `run` lets it act, effects come out.
//!
//! One shard so far. More of them would each own some pools and targets; a message to a replica or
//! target of another one would leave by an effect instead of the shard's own queue.

use alloc::{collections::BTreeSet, string::String};
use core::time::Duration;

use block::Buffer;
use mirror::StoreAnswer;
use model::{HostId, Inventory, NodeConfig, PoolId, ReplicaId, VolumeId};
use nvme::Outgoing;
use pool::Pool;

use crate::{
    Device, InjectedFault, NodeParams,
    context::ConnOwner,
    effect::{
        ConnId, DiskFailure, DiskId, DiskIoId, DiskOpenError, Effect, OpenDisk, TargetKey, Ticket,
    },
    shard::Shard,
    shutdown::Shutdown,
    storage::Absence,
};

#[derive(Debug)]
pub struct StorageNode {
    shard: Shard,
    shutdown: Shutdown,
}

impl StorageNode {
    /// Starts empty: nothing is served before a config says so (RS-1). `now` counts from any
    /// moment, on a monotonic clock.
    pub fn new(params: NodeParams, now: Duration) -> Self {
        Self { shard: Shard::new(params, now), shutdown: Shutdown::No }
    }

    /// Exports a device under a name, to any host: for an engine without a controller.
    pub fn serve(&mut self, nqn: String, uuid: uuid::Uuid, device: Device) {
        self.shard.cx.port.export_device(nqn, uuid, device);
    }

    /// Opens a pool that was found on a disk, whether or not a config will name it.
    pub fn look_at(&mut self, pool: PoolId, path: String) {
        self.shard.storage.bring_pool(&mut self.shard.cx, pool, &[path], Absence::Report);
    }

    /// Answered by [`Effect::Applied`].
    pub fn apply(&mut self, now: Duration, ticket: Ticket, config: NodeConfig) {
        self.shard.wake(now);
        self.shard.config.apply(&mut self.shard.cx, &self.shard.storage, ticket, config);
    }

    /// Answered by [`Effect::Inventory`].
    pub fn request_inventory(&mut self, now: Duration, ticket: Ticket) {
        self.shard.wake(now);
        self.shard.config.pending_inventories.push((ticket, self.shard.cx.now));
    }

    /// A connection came in; `None` if there are too many.
    pub fn accept(&mut self, now: Duration) -> Option<ConnId> {
        self.shard.wake(now);
        let cx = &mut self.shard.cx;
        let id = cx.port.accept(cx.now)?;
        let conn = cx.new_conn(ConnOwner::Port(id));
        cx.port.number_conn(id, conn);
        Some(conn)
    }

    /// A connection that was dialled is up. One that failed is `closed`.
    pub fn connected(&mut self, now: Duration, conn: ConnId) {
        self.shard.wake(now);
        self.shard.connected(conn.0);
    }

    pub fn received(&mut self, now: Duration, conn: ConnId, bytes: &[u8]) {
        self.shard.wake(now);
        self.shard.received(conn.0, bytes);
    }

    /// A connection is gone. Its number may be given again.
    pub fn closed(&mut self, now: Duration, conn: ConnId) {
        self.shard.wake(now);
        self.shard.conn_closed(conn.0);
    }

    /// With the number of blocks that the disk has.
    pub fn disk_opened(
        &mut self,
        now: Duration,
        opened: &OpenDisk,
        result: Result<(DiskId, u64), DiskOpenError>,
    ) {
        self.shard.wake(now);
        self.shard.storage.disk_opened(&mut self.shard.cx, opened, result);
    }

    /// An operation of a disk is done; a read brings its data.
    pub fn disk_done(
        &mut self,
        now: Duration,
        io: DiskIoId,
        result: Result<Option<Buffer>, DiskFailure>,
    ) {
        self.shard.wake(now);
        self.shard.storage.disk_done(&mut self.shard.cx, io, result);
    }

    pub fn store_answered(
        &mut self,
        now: Duration,
        target: TargetKey,
        call: u64,
        answer: StoreAnswer,
    ) {
        self.shard.wake(now);
        self.shard.targets.store_answered(&mut self.shard.cx, target, call, answer);
    }

    /// Hands back what was sent, for its memory.
    pub fn recycle(&mut self, outgoing: Outgoing) {
        self.shard.cx.port.recycle(outgoing);
    }

    /// Ends a target as its death would, for a drill.
    pub fn fail_target(&mut self, now: Duration, target: TargetKey) {
        self.shard.wake(now);
        self.shard.fail_target(target);
    }

    /// Breaks something, for tests.
    pub fn inject(&mut self, now: Duration, fault: InjectedFault) -> Result<(), &'static str> {
        self.shard.wake(now);
        let Shard { cx, storage, .. } = &mut self.shard;
        if !cx.params.takes_faults {
            return Err("started without --allow-faults");
        }
        match fault {
            InjectedFault::CutReplica { replica } => storage.cut_replica(cx, replica),
            InjectedFault::HideReplica { replica } => {
                cx.faults.hidden.insert(replica);
                storage.cut_replica(cx, replica);
            }
            InjectedFault::FailExport { volume } => {
                cx.faults.not_exported.insert(volume);
            }
            InjectedFault::Heal => {
                cx.faults = crate::injected_fault::InjectedFaults::default();
                storage.heal_disks();
            }
            disk => return storage.inject_disk_fault(disk),
        }
        Ok(())
    }

    /// Flushes, stops targets cleanly, exports pools. Answered by [`Effect::Stopped`].
    pub fn stop(&mut self, now: Duration) {
        self.shard.wake(now);
        if self.shutdown == Shutdown::No {
            self.shutdown = Shutdown::begin(&mut self.shard);
        }
    }

    /// Lets everything that came in have its effects.
    pub fn run(&mut self, now: Duration) {
        self.shard.cx.now = self.shard.cx.now.max(now);
        self.shard.run();
        while self.shutdown != Shutdown::No {
            let before = self.shutdown;
            self.shutdown = self.shutdown.advance(&mut self.shard);
            if before == self.shutdown {
                break;
            }
            self.shard.run();
        }
    }

    /// What is to be done next, in order.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.shard.cx.effects.pop_front()
    }

    /// When `run` is due, if nothing happens before.
    pub fn next_deadline(&self) -> Duration {
        self.shard.cx.next_tick
    }

    /// In the text format of Prometheus.
    pub fn metrics(&self) -> String {
        self.shard.metrics()
    }

    /// What an inventory would tell now, but for what pools carry: for who judges, since nobody is
    /// told.
    pub fn look(&self) -> Inventory {
        self.shard.look()
    }

    /// Hosts with a session at this volume's target, or with commands there.
    pub fn hosts_of(&self, volume: VolumeId) -> BTreeSet<HostId> {
        self.shard.hosts_of(volume)
    }

    pub fn pool(&self, pool: PoolId) -> Option<&Pool> {
        self.shard.storage.open_pool(pool)
    }

    /// Asks a pool for something that no config asks for. Nobody waits for it.
    #[cfg(feature = "flaws")]
    pub fn ask_pool(&mut self, now: Duration, pool: PoolId, request: pool::Request) {
        self.shard.wake(now);
        let Shard { cx, storage, .. } = &mut self.shard;
        let pool = storage.pools.handle(pool);
        storage.ask_pool(cx, pool, crate::storage::PoolRequester::Nobody, request);
    }

    /// What happened to replicas since this was asked last.
    #[cfg(feature = "flaws")]
    pub fn take_audit(&mut self) -> alloc::vec::Vec<crate::AuditEvent> {
        core::mem::take(&mut self.shard.cx.audit)
    }

    pub fn replica(&self, replica: ReplicaId) -> Option<&mirror::Replica<Buffer>> {
        self.shard.storage.replicas.get(&replica).map(|entry| &entry.machine)
    }

    pub fn target(&self, volume: VolumeId) -> Option<&mirror::Target<Buffer>> {
        self.shard.targets.entries.get(&volume).map(|entry| &entry.machine)
    }

    pub fn targets(&self) -> impl Iterator<Item = (VolumeId, &mirror::Target<Buffer>)> {
        self.shard.targets.entries.iter().map(|(volume, entry)| (*volume, &entry.machine))
    }
}
