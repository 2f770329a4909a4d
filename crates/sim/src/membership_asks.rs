//! What a controller does with engines' questions about membership, where the simulated store is
//! asked at once: the rights of production, by the records of the moment.

use model::{
    Buried, InstanceId, Key, Membership, Node, NodeId, Record, Revision, TargetRef, Undecodable,
    Volume, VolumeId,
};
use ports::{Txn, Write};
use reconcile::{Asker, MembershipFacts, RecordFound, check_read, check_swap};
use store::memory::Core;

use crate::StoreOp;

/// An engine's question, and who it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MembershipQuestion<'a> {
    pub node: NodeId,
    /// A model of an engine does not say; it is taken for the process that it names.
    pub process: Option<InstanceId>,
    pub op: &'a StoreOp,
}

impl MembershipQuestion<'_> {
    /// Whether it is answered.
    pub(crate) fn is_allowed(self, core: &Core) -> bool {
        // A bench without a controller that founded the store keeps records as it likes.
        if core.get(&Key::Cluster.to_string()).is_none() {
            return true;
        }
        match self.op {
            StoreOp::Read(keys) => keys.iter().all(|key| self.may_read(core, key)),
            StoreOp::Commit(txn) => self.may_commit(core, txn),
            StoreOp::List | StoreOp::Lease(_) | StoreOp::Watch { .. } => false,
        }
    }

    fn may_read(self, core: &Core, key: &str) -> bool {
        let Ok(Key::Membership(volume)) = key.parse() else { return false };
        self.judge(core, volume, |record, facts| {
            check_read(&self.asker(&[record.owner]), facts).is_ok()
        })
    }

    fn may_commit(self, core: &Core, txn: &Txn) -> bool {
        txn.writes.iter().all(|write| {
            let Write::Put { key, value, .. } = write else { return false };
            let Ok(key) = key.parse() else { return false };
            let Ok(Record::Membership(new)) = Record::decode(&key, value, Revision::ZERO) else {
                return false;
            };
            self.judge(core, new.volume, |record, facts| {
                // Who was fenced hears that its record is another one by now.
                let asker = self.asker(&[new.owner, record.owner]);
                new.epoch != record.epoch || check_swap(&asker, facts, &new).is_ok()
            })
        })
    }

    fn asker(self, named: &[Option<InstanceId>]) -> Asker {
        let named = named.iter().copied().flatten().next();
        let instance = self.process.or(named).unwrap_or(InstanceId::from_u128(0));
        Asker { node: self.node, instance, certificate: None }
    }

    /// What is not there, or does not decode, the store tells itself.
    fn judge(
        self,
        core: &Core,
        of: VolumeId,
        allows: impl FnOnce(&Membership, &MembershipFacts<'_>) -> bool,
    ) -> bool {
        let Some(Ok(Record::Membership(record))) = read(core, &Key::Membership(of)) else {
            return true;
        };
        let node = read(core, &Key::Node(self.node));
        let node: Option<Result<Box<Node>, _>> = node.map(|read| match read? {
            Record::Node(node) => Ok(node),
            _ => Err(()),
        });
        let volume: Option<Result<Box<Volume>, _>> =
            read(core, &Key::Volume(of)).map(|read| match read? {
                Record::Volume(volume) => Ok(volume),
                _ => Err(()),
            });
        let tombstones = tombstones(core, self.node, of);
        let facts = MembershipFacts {
            node: found(node.as_ref()),
            volume: found(volume.as_ref()),
            record: &record,
            tombstones: &tombstones,
        };
        allows(&record, &facts)
    }
}

fn read(core: &Core, key: &Key) -> Option<Result<Record, ()>> {
    let entry = core.get(&key.to_string())?;
    let decoded = Record::decode(key, &entry.value, entry.modified);
    Some(decoded.map_err(|Undecodable { .. }| ()))
}

fn found<T>(read: Option<&Result<Box<T>, ()>>) -> RecordFound<'_, T> {
    match read {
        None => RecordFound::Absent,
        Some(Ok(record)) => RecordFound::Read(record),
        Some(Err(())) => RecordFound::Unreadable,
    }
}

fn tombstones(core: &Core, node: NodeId, of: VolumeId) -> Vec<TargetRef> {
    const AT_ONCE: usize = 500;
    let prefix = format!("tombstone/{node}/");
    let Ok(page) = core.list(&prefix, None, AT_ONCE, None) else { return Vec::new() };
    let targets = page.entries.iter().filter_map(|entry| match entry.key.parse().ok()? {
        Key::Tombstone(node, Buried::Target { volume, epoch }) if volume == of => {
            Some(TargetRef { node, epoch })
        }
        _ => None,
    });
    targets.collect()
}
