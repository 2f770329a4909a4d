//! Who a storage node is, and how it behaves.

use alloc::{string::String, vec::Vec};

use model::{InstanceId, NodeId};

#[derive(Clone, Debug)]
pub struct NodeParams {
    pub node: NodeId,
    /// The process: random, another one with every start. Ids of replica imports derive from it.
    pub instance: InstanceId,
    pub boot: pool::Boot,
    /// What discovery tells hosts, as `address:port`.
    pub advertised: Vec<String>,
    pub times: mirror::Times,
    pub throttle: mirror::Throttle,
    pub geometry: mirror::Geometry,
    /// Sizes of a pool that is made for a config; the usual ones, if none are given.
    pub pool_sizes: Option<pool::Sizes>,
    /// Faults may be injected: for tests.
    pub takes_faults: bool,
    /// Links to replicas carry checksums on loopback, too.
    pub checks_loopback: bool,
    /// Rules that a proof leaves out: none, in the product.
    pub mutations: Mutations,
}

impl NodeParams {
    /// With the usual behaviour, and nothing to advertise.
    pub fn new(node: NodeId, instance: InstanceId, boot: pool::Boot) -> Self {
        Self {
            node,
            instance,
            boot,
            advertised: Vec::new(),
            times: mirror::Times::default(),
            throttle: mirror::Throttle::default(),
            geometry: mirror::Geometry::default(),
            pool_sizes: None,
            takes_faults: false,
            checks_loopback: false,
            mutations: Mutations::default(),
        }
    }
}

/// Rules of the machines and of the glue between them that a proof leaves out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mutations {
    pub pool: pool::Flaws,
    #[cfg(feature = "flaws")]
    pub mirror: Option<mirror::Flaw>,
    #[cfg(feature = "flaws")]
    pub node: Option<NodeMutation>,
}

/// Rules of the glue, one of which a proof leaves out to show that something notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeMutation {
    /// A config is answered only when every pool of the node is idle.
    ApplyWaitsForEveryPool,
    /// The I/O of a replica goes to another pool of the node than its own.
    WrongPool,
    /// A change is not reported before the next whole report.
    ReportForgotten,
}

impl NodeMutation {
    pub const ALL: &[Self] =
        &[Self::ApplyWaitsForEveryPool, Self::WrongPool, Self::ReportForgotten];
}

impl Mutations {
    #[cfg(feature = "flaws")]
    pub(crate) fn leaves_out(self, rule: NodeMutation) -> bool {
        self.node == Some(rule)
    }

    #[cfg(not(feature = "flaws"))]
    #[allow(clippy::unused_self, reason = "the product leaves no rule out")]
    pub(crate) const fn leaves_out(self, _rule: NodeMutation) -> bool {
        false
    }
}
