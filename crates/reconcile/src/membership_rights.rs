//! Who may read and change a volume's membership record.
//!
//! A certificate says that somebody is an engine, not which volumes are its. Every question is
//! judged by the records of one revision: the node that the asker says it is, the volume's layout,
//! the membership record itself.
//!
//! - Read: a node with the volume's target, a replaced target or one with a tombstone, or a
//!   replica. An old target must learn that it is fenced.
//! - Swap: the process that the layout issued the record's epoch to, in its own name.
//!
//! A volume or node whose record does not decode keeps its target: the membership record names the
//! process that owns it.
//! The record's revision is compared when it is written, and a new target comes with a new epoch in
//! the record, so what was judged still holds then.

use alloc::{string::String, vec::Vec};

use model::{InstanceId, Membership, Node, NodeId, TargetRef, Volume};

/// An engine process as it said who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    pub node: NodeId,
    pub instance: InstanceId,
    /// The name in its certificate, where certificates are asked for.
    pub certificate: Option<String>,
}

/// A record, as far as it can be had.
#[derive(Debug, PartialEq, Eq)]
pub enum RecordFound<'a, T> {
    Absent,
    /// It is there and does not decode.
    Unreadable,
    Read(&'a T),
}

/// The records that a question is judged by, all of one revision.
#[derive(Debug)]
pub struct MembershipFacts<'a> {
    /// Of the asker's node.
    pub node: RecordFound<'a, Node>,
    pub volume: RecordFound<'a, Volume>,
    pub record: &'a Membership,
    /// Targets of this volume that the asker's node has tombstones for.
    pub tombstones: &'a [TargetRef],
}

/// Why a question is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskRefusal {
    #[error("its node is not on record")]
    NoSuchNode,
    #[error("its certificate is for another node")]
    OtherNode,
    #[error("its node has no target and no replica of the volume")]
    NoPart,
    #[error("the volume's target is not this process's at this epoch")]
    NotOwner,
    #[error("it writes in the name of another process")]
    OtherName,
}

/// Whether the record may be shown.
pub fn check_read(asker: &Asker, facts: &MembershipFacts<'_>) -> Result<(), AskRefusal> {
    check_node(asker, facts)?;
    let has_part = match &facts.volume {
        RecordFound::Read(volume) => {
            let layout = &volume.layout;
            let mut nodes: Vec<NodeId> = layout.replicas.iter().map(|r| r.node).collect();
            nodes.extend(layout.target.as_ref().map(|target| target.node));
            nodes.extend(layout.old_targets.iter().map(|target| target.node));
            nodes.contains(&asker.node)
        }
        RecordFound::Unreadable => facts.is_owner_on_record(asker),
        RecordFound::Absent => false,
    };
    let is_buried = facts.tombstones.iter().any(|target| target.node == asker.node);
    if has_part || is_buried { Ok(()) } else { Err(AskRefusal::NoPart) }
}

/// Whether the record may be replaced by this one. That it is of the same epoch and of the revision
/// that was read is compared besides.
pub fn check_swap(
    asker: &Asker,
    facts: &MembershipFacts<'_>,
    new: &Membership,
) -> Result<(), AskRefusal> {
    check_node(asker, facts)?;
    let is_owner = match &facts.volume {
        RecordFound::Read(volume) => volume.layout.target.as_ref().is_some_and(|target| {
            (target.node, target.instance, target.epoch) == (asker.node, asker.instance, new.epoch)
        }),
        RecordFound::Unreadable => facts.is_owner_on_record(asker),
        RecordFound::Absent => false,
    };
    if !is_owner {
        return Err(AskRefusal::NotOwner);
    }
    match new.owner {
        Some(owner) if owner != asker.instance => Err(AskRefusal::OtherName),
        _ => Ok(()),
    }
}

fn check_node(asker: &Asker, facts: &MembershipFacts<'_>) -> Result<(), AskRefusal> {
    let node = match &facts.node {
        RecordFound::Read(node) => node,
        RecordFound::Unreadable if facts.is_owner_on_record(asker) => return Ok(()),
        RecordFound::Absent | RecordFound::Unreadable => return Err(AskRefusal::NoSuchNode),
    };
    let is_its = |certificate: &String| is_record_of(certificate, &node.meta.name, &asker.node);
    if asker.certificate.as_ref().is_none_or(is_its) { Ok(()) } else { Err(AskRefusal::OtherNode) }
}

impl MembershipFacts<'_> {
    fn is_owner_on_record(&self, asker: &Asker) -> bool {
        self.record.owner == Some(asker.instance)
    }
}

/// Whether a certificate's name is that of a record with this id. A second node or host of one name
/// is recorded under its name and id.
pub fn is_record_of(certificate: &str, recorded: &str, id: &impl core::fmt::Display) -> bool {
    let rest = recorded.strip_prefix(certificate);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('-') == Some(&*alloc::format!("{id}"))
    })
}

#[cfg(test)]
mod tests;
