//! Making a fault of a script happen, and undoing it when its time is over.

use std::rc::Rc;

use model::{Key, Millis, NodeId, PoolId, Record, VolumeId};
use ports::{Compare, Expect, LeaseRequest, Txn, Write};

use super::{Cluster, Item, Running};
use crate::{
    Call, Caller, Fault, Hardware, Message, Party, StoreOp,
    fakes::{
        disk::{Condition, Disk},
        store::Outage,
    },
    names,
};

/// What ends a fault.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    StoreBack,
    StoreFast,
    Weather,
    Repair { key: String, value: Vec<u8> },
    Disk { node: NodeId, pool: PoolId },
    Hang { node: NodeId, pool: PoolId },
    PowerOn(NodeId),
    Isolate { node: NodeId, span: Millis },
}

impl Cluster {
    pub fn inject(&mut self, fault: &Fault) {
        self.note(&format!("fault: {fault}"));
        self.promises.is_stirred = true;
        match fault {
            Fault::Kill { party, down } => {
                self.kill(*party);
                self.start_in(*party, *down);
            }
            Fault::PowerOff { node, down } => {
                let node = names::node(node);
                self.power_off(node);
                match down {
                    Some(down) => self.undo_in(*down, Undo::PowerOn(node)),
                    None => self.nodes.entry(node).or_default().is_lost = true,
                }
            }
            Fault::PowerOn { node } => {
                self.nodes.entry(names::node(node)).or_default().is_lost = false;
                self.power_on(names::node(node));
            }
            Fault::Pause { party, span } => self.pause(*party, *span),
            Fault::Cut { one, other, span } => {
                self.cut(*one, *other, *span);
                self.cut(*other, *one, *span);
            }
            Fault::CutOneWay { from, to, span } => self.cut(*from, *to, *span),
            Fault::Isolate { party, span } => self.isolate(*party, *span),
            Fault::Flap { node, every, span } => {
                let (node, half) = (names::node(node), Millis(every.0 / 2));
                let mut after = Millis::ZERO;
                while after < *span && every.0 > 0 {
                    self.undo_in(after, Undo::Isolate { node, span: half });
                    after.0 += every.0;
                }
            }
            Fault::Weather { weather, span } => {
                self.network.begin_weather(*weather, self.now + *span);
                self.undo_in(*span, Undo::Weather);
            }
            Fault::ClockAhead { controller, by } => self.set_clock(*controller, *by, Millis::ZERO),
            Fault::ClockBehind { controller, by } => self.set_clock(*controller, Millis::ZERO, *by),
            Fault::FaultPool { pool, span } => {
                self.damage(names::pool(pool), Condition::Faulted, *span);
            }
            Fault::PullDisk { pool, span } => {
                self.damage(names::pool(pool), Condition::Absent, *span);
            }
            Fault::HangDisk { pool, span } => self.hang(names::pool(pool), *span),
            Fault::SwapDisk { pool } => self.swap(names::pool(pool)),
            Fault::Garble { kind, label, span } => self.garble(kind, label, *span),
            Fault::Lie { node, volume } => self.lie(names::node(node), names::volume(volume)),
            other => self.inject_in_store(other),
        }
    }

    fn inject_in_store(&mut self, fault: &Fault) {
        match fault {
            Fault::StoreSilent { span } => self.store_out(Outage::Silent, *span),
            Fault::StoreRefusing { span } => self.store_out(Outage::Refusing, *span),
            Fault::StoreSlow { by, span } => {
                self.network.store_slower = *by;
                self.undo_in(*span, Undo::StoreFast);
            }
            Fault::StoreCompact => {
                let before = self.store.core.revision().next();
                let _ = self.store.core.compact(before);
            }
            Fault::StoreEndsLeases => self.end_leases(),
            Fault::StoreRollsBack { by } => {
                self.store.roll_back(self.now - *by);
                self.drop_store_calls();
            }
            Fault::StoreWiped => {
                self.store.wipe();
                self.drop_store_calls();
            }
            _ => {}
        }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::StoreBack => self.store.outage = None,
            Undo::StoreFast => self.network.store_slower = Millis::ZERO,
            Undo::Weather => self.network.end_weather(self.now),
            Undo::Repair { key, value } => self.write_store(key, value),
            Undo::Disk { node, pool } => {
                self.set_condition(node, pool, Condition::Fine);
                self.restart_for_disk(node);
            }
            Undo::Hang { node, pool } => self.set_hanging(node, pool, false),
            Undo::PowerOn(node) => {
                if !self.nodes.get(&node).is_some_and(|machine| machine.is_lost) {
                    self.power_on(node);
                }
            }
            Undo::Isolate { node, span } => self.isolate(Party::Node(node), span),
        }
    }

    fn undo_in(&mut self, span: Millis, undo: Undo) {
        self.queue.push(self.now + span, Item::Undo(undo));
    }

    /// Nobody goes away again.
    pub(super) fn end_flaps(&mut self) {
        self.queue.retain(|item| !matches!(item, Item::Undo(Undo::Isolate { .. })));
    }

    fn store_out(&mut self, outage: Outage, span: Millis) {
        self.store.outage = Some(outage);
        self.undo_in(span, Undo::StoreBack);
    }

    /// Messages to and from a store that is no more are lost with their connections.
    fn drop_store_calls(&mut self) {
        self.queue.retain(|item| {
            !matches!(
                item,
                Item::Deliver { from: Party::Store, .. } | Item::Deliver { to: Party::Store, .. }
            )
        });
    }

    fn end_leases(&mut self) {
        let leader = self.store.core.get(&Key::Leader.to_string());
        let Some(lease) = leader.and_then(|entry| entry.lease) else { return };
        let now = core::time::Duration::from_millis(self.now.0);
        let _ = self.store.core.lease(now, LeaseRequest::Revoke { lease });
    }

    fn set_clock(&mut self, controller: u8, ahead: Millis, behind: Millis) {
        let Some(seat) = self.controllers.get_mut(usize::from(controller)) else { return };
        (seat.ahead, seat.behind) = (ahead, behind);
        if let Some(process) = &mut seat.process {
            (process.ahead, process.behind) = (ahead, behind);
        }
    }

    fn damage(&mut self, pool: PoolId, condition: Condition, span: Option<Millis>) {
        let Some(node) = self.node_of(pool) else { return };
        self.set_condition(node, pool, condition);
        if let Some(span) = span {
            self.undo_in(span, Undo::Disk { node, pool });
        }
    }

    fn swap(&mut self, pool: PoolId) {
        let Some(node) = self.node_of(pool) else { return };
        self.change_disk(node, pool, |disk, hardware, path| {
            *disk = Disk::blank(disk.capacity);
            hardware.swap(path);
        });
        self.restart_for_disk(node);
    }

    /// A pool that failed is opened again by the next process of its node: somebody who puts a
    /// disk right restarts the engine.
    fn restart_for_disk(&mut self, node: NodeId) {
        self.kill(Party::Node(node));
        self.start_in(Party::Node(node), Millis(500));
    }

    /// The disk ends nothing for a while.
    fn hang(&mut self, pool: PoolId, span: Millis) {
        let Some(node) = self.node_of(pool) else { return };
        self.set_hanging(node, pool, true);
        self.undo_in(span, Undo::Hang { node, pool });
    }

    fn set_hanging(&mut self, node: NodeId, pool: PoolId, hangs: bool) {
        self.change_disk(node, pool, |_, hardware, path| hardware.set_hanging(path, hangs));
    }

    fn set_condition(&mut self, node: NodeId, pool: PoolId, condition: Condition) {
        self.change_disk(node, pool, |disk, hardware, path| {
            disk.condition = condition;
            hardware.set_condition(path, condition);
        });
    }

    fn change_disk(
        &mut self,
        node: NodeId,
        pool: PoolId,
        change: impl FnOnce(&mut Disk, &mut Hardware, &str),
    ) {
        self.change_disks(node, |disks, hardware| {
            let path = disks.path_of(pool);
            let disk = disks.disk_of_mut(pool);
            if let Some((disk, path)) = disk.zip(path) {
                change(disk, hardware, &path);
            }
        });
    }

    fn garble(&mut self, kind: &str, label: &str, span: Millis) {
        let key = format!("{kind}/{}", names::pack(label));
        let Some(entry) = self.store.core.get(&key) else { return };
        let value = entry.value.clone();
        if self.records.undecodable.contains(&key) {
            return;
        }
        self.write_store(key.clone(), b"{ not what it was".to_vec());
        self.undo_in(span, Undo::Repair { key, value });
    }

    /// Somebody with this engine's certificate says that one replica alone is healthy, in the name
    /// of the record's owner and in its own.
    fn lie(&mut self, node: NodeId, volume: VolumeId) {
        let Some(instance) = self
            .nodes
            .get(&node)
            .and_then(|machine| machine.engine.as_ref().map(|engine| engine.instance))
        else {
            return;
        };
        let key = Key::Membership(volume);
        let text = key.to_string();
        let Some(entry) = self.store.core.get(&text) else { return };
        let Ok(Record::Membership(record)) = Record::decode(&key, &entry.value, entry.modified)
        else {
            return;
        };
        for owner in [record.owner, Some(instance), None] {
            let mut lie = record.clone();
            lie.owner = owner;
            lie.roster = lie.roster.next();
            lie.children.values_mut().skip(1).for_each(|healthy| *healthy = false);
            let value = Record::Membership(lie).encode();
            let op = StoreOp::Commit(Rc::new(Txn {
                compares: vec![Compare {
                    key: text.clone(),
                    expect: Expect::ModifiedAt(record.revision),
                }],
                writes: vec![Write::Put { key: text.clone(), value, lease: None }],
            }));
            // It has no answer to wait for.
            let call = Call { caller: Caller::Process { instance }, number: u64::MAX };
            self.send(Party::Node(node), Party::Store, Message::ToStore { call, op });
        }
    }

    fn write_store(&mut self, key: String, value: Vec<u8>) {
        let writes = vec![Write::Put { key, value, lease: None }];
        let txn = Txn { compares: Vec::new(), writes };
        self.with(Party::Store, |running, ctx| {
            if let Running::Store(store) = running {
                // A store that is out takes nothing, also not from us; the next try may.
                let _ = store.write(ctx, &txn);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use model::Bytes;

    use super::*;
    use crate::{DiskSetup, Script, Setup, cluster::tests::Idle};

    fn cluster() -> Cluster {
        let mut setup = Setup { controllers: 1, ..Setup::default() };
        setup.nodes.insert("n1".into(), std::collections::BTreeMap::new());
        setup.hosts.insert("h1".into(), Some("n1".into()));
        let disk = DiskSetup { label: "p1".into(), node: "n1".into(), capacity: Bytes::gib(1) };
        setup.disks.push(disk);
        Cluster::new(1, &setup, Box::new(|_, _, _| Box::new(Idle::default())))
    }

    fn run(cluster: &mut Cluster, text: &str, seconds: u64) {
        for line in Script::parse(text).unwrap().lines {
            let crate::Action::Fault(fault) = line.action else { panic!("{text}") };
            cluster.inject(&fault);
        }
        cluster.run_for(Millis::seconds(seconds)).unwrap();
    }

    #[test]
    fn a_machine_without_power_takes_its_host_with_it_and_returns() {
        let mut cluster = cluster();
        let (node, host) = (Party::Node(names::node("n1")), Party::Host(names::host("h1")));
        cluster.run_for(Millis::seconds(1)).unwrap();
        run(&mut cluster, "0.0 power off n1 for 10s", 9);
        assert!(!cluster.is_running(node) && !cluster.is_running(host));
        cluster.run_for(Millis::seconds(5)).unwrap();
        assert!(cluster.is_running(node) && cluster.is_running(host));
        assert_eq!(cluster.instance(node), names::instance(names::pack("n1"), 2));
    }

    #[test]
    fn a_flap_isolates_again_and_again() {
        let mut cluster = cluster();
        let (node, store) = (Party::Node(names::node("n1")), Party::Store);
        run(&mut cluster, "0.0 flap n1 every 2s for 6s", 0);
        let mut seen = String::new();
        for _ in 0..14 {
            cluster.run_for(Millis(500)).unwrap();
            let cut = cluster.network.is_cut(node, store, cluster.now);
            seen.push(if cut { 'x' } else { '.' });
        }
        assert_eq!(seen, "x..xx..xx.....");
    }

    #[test]
    fn a_store_that_rolls_back_is_another_one() {
        let mut cluster = cluster();
        cluster.store.keeps_backups = true;
        cluster.run_for(Millis::seconds(3)).unwrap();
        cluster.write_store("volume/x".into(), vec![1]);
        cluster.run_for(Millis::seconds(3)).unwrap();
        run(&mut cluster, "0.0 store rolls-back 5s", 1);
        assert_eq!(cluster.store.incarnation, 1);
        assert!(cluster.store.core.get("volume/x").is_none());
    }
}
