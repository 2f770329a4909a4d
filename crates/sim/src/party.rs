//! Who can send and receive.

use core::fmt;

use model::{HostId, NodeId};

use crate::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Store,
    User,
    Controller(u8),
    /// The engine of a node.
    Node(NodeId),
    Host(HostId),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("store"),
            Self::User => f.write_str("user"),
            Self::Controller(index) => write!(f, "c{index}"),
            Self::Node(id) => f.write_str(&names::label(id.0)),
            Self::Host(id) => f.write_str(&names::label(id.0)),
        }
    }
}
