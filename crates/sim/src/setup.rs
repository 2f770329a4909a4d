//! Which machines there are.

use std::collections::BTreeMap;

use model::{Bytes, Millis};
use storage_node::NodeMutation;

use crate::{
    Hardware, Party,
    cluster::{Cluster, HostMachine, Machine},
    fakes::disk::{Disk, Disks},
    names,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    pub controllers: u8,
    /// By label; the values are topology labels.
    pub nodes: BTreeMap<String, BTreeMap<String, String>>,
    pub disks: Vec<DiskSetup>,
    /// The node on the same machine, if there is one.
    pub hosts: BTreeMap<String, Option<String>>,
}

/// A blank disk; `create pool` with the same label makes a pool of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSetup {
    pub label: String,
    pub node: String,
    pub capacity: Bytes,
}

/// The path of a disk, as a pool's spec names it.
pub fn disk_path(label: &str) -> String {
    format!("/dev/{label}")
}

impl Setup {
    pub(crate) fn build(&self, cluster: &mut Cluster, mutation: Option<NodeMutation>) {
        for label in self.nodes.keys() {
            let own = self.disks.iter().filter(|disk| disk.node == *label);
            let by_path =
                own.map(|disk| (disk_path(&disk.label), Disk::blank(disk.capacity))).collect();
            let (id, disks) = (names::node(label), Disks { by_path });
            let hardware = Hardware::new(mutation, id.0.as_u128(), &disks);
            let machine = Machine { disks, hardware, is_powered: true, ..Machine::default() };
            cluster.nodes.insert(id, machine);
        }
        for (index, (label, node)) in self.hosts.iter().enumerate() {
            let node = node.as_deref().map(names::node);
            let machine = HostMachine { index, node, is_powered: true, ..HostMachine::default() };
            cluster.hosts.insert(names::host(label), machine);
        }
        let everybody = cluster.everybody();
        for party in everybody.into_iter().filter(|party| *party != Party::Store) {
            cluster.start_in(party, Millis::ZERO);
        }
    }
}
