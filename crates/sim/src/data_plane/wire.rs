//! A connection of a target to a replica: in order in each direction, and either end may go first.

use std::collections::VecDeque;

use block::Buffer;
use mirror::{Answer, Request};
use model::ReplicaId;

#[derive(Debug)]
pub(super) struct Wire {
    /// Of the target.
    pub(super) epoch: u64,
    /// As the target numbers it.
    pub(super) session: u64,
    pub(super) child: ReplicaId,
    pub(super) from: usize,
    pub(super) to: usize,
    /// The process of the replica that took it.
    pub(super) accepted: Option<u64>,
    pub(super) down: VecDeque<(u64, Down)>,
    pub(super) up: VecDeque<(u64, Up)>,
    /// Nothing more will come from this side.
    pub(super) target_gone: bool,
    pub(super) replica_gone: bool,
}

/// To the replica.
#[derive(Debug)]
pub(super) enum Down {
    Open,
    Ask(u64, Request<Buffer>),
    Close,
}

/// To the target.
#[derive(Debug)]
pub(super) enum Up {
    Answer(u64, Answer<Buffer>),
    Closed,
}

impl Wire {
    pub(super) const fn is_local(&self) -> bool {
        self.from == self.to
    }

    pub(super) fn is_over(&self) -> bool {
        self.down.is_empty() && self.up.is_empty() && self.target_gone && self.replica_gone
    }

    /// When something sent now may arrive: never before what was sent before it.
    pub(super) fn after_down(&self, at: u64) -> u64 {
        self.down.back().map_or(at, |(last, _)| at.max(*last))
    }

    pub(super) fn after_up(&self, at: u64) -> u64 {
        self.up.back().map_or(at, |(last, _)| at.max(*last))
    }
}
