//! What is said.

use model::{
    Difference, Epoch, HostConfig, HostId, HostInventory, InstanceId, Inventory, Membership,
    NodeConfig, NodeId, Revision, VolumeId,
};
use ports::{EngineError, MembershipError};
use serde::{Deserialize, Serialize};

use crate::Speaks;

/// The first message of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub node: NodeId,
    pub name: String,
    /// Where its targets and replicas listen.
    pub address: String,
    pub instance: InstanceId,
    /// The version of the program, for people.
    pub version: String,
    #[serde(default)]
    pub speaks: Speaks,
}

/// The first message of a host's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    pub host: HostId,
    pub name: String,
    /// The NVMe qualified name it connects with.
    pub nqn: String,
    /// The storage node on the same machine, if there is one.
    pub node: Option<NodeId>,
    pub instance: InstanceId,
    /// The version of the program, for people.
    pub version: String,
    #[serde(default)]
    pub speaks: Speaks,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToController {
    Hello(Hello),
    HostHello(HostHello),
    Heartbeat,
    /// These nodes served something since the last heartbeat: they live, whatever their own streams
    /// say.
    HeardThrough(Vec<NodeId>),
    Inventory(Box<Inventory>),
    Difference(Box<Difference>),
    HostInventory(Box<HostInventory>),
    /// The answer to `ToEngine::Apply` and `ToHost::Apply`.
    Applied(Result<Revision, EngineError>),
    Ask {
        call: u64,
        ask: MembershipAsk,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToEngine {
    Apply(Box<NodeConfig>),
    /// Send the whole inventory.
    Inventory,
    /// End this target at once, if it is at this epoch: a drill.
    Strike {
        volume: VolumeId,
        epoch: Epoch,
    },
    Answer {
        call: u64,
        answer: MembershipAnswer,
    },
    /// The last word to an engine that this controller cannot work with.
    Refused {
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHost {
    Apply(Box<HostConfig>),
    /// Send the whole inventory.
    Inventory,
    /// The last word to a host that this controller cannot work with.
    Refused {
        reason: String,
    },
}

/// About a membership record. Its revision travels beside it: it is no part of what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembershipAsk {
    Read { volume: VolumeId },
    Swap { record: Box<Membership>, read_at: Revision },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembershipAnswer {
    Read(Result<Option<(Box<Membership>, Revision)>, MembershipError>),
    Swapped(Result<Revision, MembershipError>),
}
