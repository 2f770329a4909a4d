//! One session between a target and a replica: two queues, and two ends that close apart.

use std::collections::VecDeque;

use mirror::{Answer, Request};

use super::disk::Version;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wire {
    pub(super) target: usize,
    pub(super) site: usize,
    /// The target's number of it.
    pub(super) session: u64,
    /// Commands and data travel apart, as on queues of their own: no order holds between them.
    pub(super) lanes: [VecDeque<(u64, Request<Version>)>; 2],
    pub(super) answers: VecDeque<(u64, Answer<Version>)>,
    /// The replica has heard from it: it ends with the replica's process.
    pub(super) is_accepted: bool,
    /// The target closed it, or it was cut: what was sent before may still arrive.
    pub(super) target_gone: bool,
    pub(super) replica_gone: bool,
}

impl Wire {
    pub(super) fn new(target: usize, site: usize, session: u64) -> Self {
        Self {
            target,
            site,
            session,
            lanes: [VecDeque::new(), VecDeque::new()],
            answers: VecDeque::new(),
            is_accepted: false,
            target_gone: false,
            replica_gone: false,
        }
    }

    /// The replica's number of it.
    pub(super) fn id(&self) -> u64 {
        u64::try_from(self.target).unwrap_or(0) * 100 + self.session
    }

    pub(super) fn push(&mut self, tag: u64, request: Request<Version>) {
        let is_data = matches!(
            request,
            Request::Read { .. }
                | Request::Fetch { .. }
                | Request::Write { .. }
                | Request::Zero { .. }
                | Request::Resync(_)
                | Request::Flush { .. }
                | Request::Ping
        );
        self.lanes[usize::from(is_data)].push_back((tag, request));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    pub(super) const fn is_over(&self) -> bool {
        self.target_gone && self.replica_gone
    }

    pub(super) fn lose_target(&mut self) {
        self.target_gone = true;
        self.answers.clear();
        if !self.is_accepted && self.is_empty() {
            self.replica_gone = true;
        }
    }

    pub(super) fn lose_replica(&mut self) {
        self.replica_gone = true;
        self.lanes.iter_mut().for_each(VecDeque::clear);
    }
}
