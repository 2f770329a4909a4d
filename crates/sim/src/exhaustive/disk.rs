//! A disk that forgets what was not flushed.

use block::Extent;
use mirror::{DiskFault, DiskOp, DiskResult, Frozen, Piece};
use model::SnapshotId;
use pool::Header;

/// What a block holds: the number of the write, zero for never.
pub type Version = u8;

/// What a disk cannot do any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ailment {
    /// It takes no more data.
    Full,
    /// A sync fails: nothing can be promised.
    Sync,
    /// Blocks cannot be read until they are written again.
    Media,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    pub(super) ailment: Option<Ailment>,
    pub(super) header: Header,
    pub(super) now: Vec<Version>,
    pub(super) durable: Vec<Version>,
    /// Snapshots, oldest first.
    pub(super) images: Vec<(Frozen, Vec<Version>)>,
    /// Values of each block since the last flush: any of them may survive a loss of power.
    since: Vec<Vec<Version>>,
}

impl Disk {
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            ailment: None,
            header: Header::default(),
            now: vec![0; blocks],
            durable: vec![0; blocks],
            images: Vec::new(),
            since: vec![Vec::new(); blocks],
        }
    }

    pub(super) fn run(&mut self, op: &DiskOp<Version>) -> DiskResult<Version> {
        if let Some(fault) = self.fault(op) {
            return DiskResult::Failed(fault);
        }
        match op {
            DiskOp::Read { extent } => DiskResult::Data(self.now[index(extent)]),
            DiskOp::Fetch { extent, image, since } => self.fetch(*extent, *image, *since),
            DiskOp::Write { extent, data, .. } => self.put(extent, *data),
            DiskOp::Zero { extent, .. } => self.put(extent, 0),
            DiskOp::Flush => self.flush(),
            DiskOp::Note(note) => {
                self.header.take(note);
                DiskResult::Done
            }
            DiskOp::Snapshot(frozen) => {
                self.images.push((frozen.clone(), self.now.clone()));
                self.flush()
            }
            DiskOp::SnapAbort { snapshot, attempt } => {
                let key = (snapshot, attempt);
                self.images.retain(|(held, _)| (&held.snapshot, &held.attempt) != key);
                DiskResult::Done
            }
        }
    }

    fn flush(&mut self) -> DiskResult<Version> {
        self.durable.clone_from(&self.now);
        self.since.iter_mut().for_each(Vec::clear);
        DiskResult::Done
    }

    fn image(&self, snapshot: SnapshotId) -> Option<&Vec<Version>> {
        let found = self.images.iter().find(|(frozen, _)| frozen.snapshot == snapshot);
        found.map(|(_, values)| values)
    }

    fn fetch(
        &self,
        extent: Extent,
        image: Option<SnapshotId>,
        since: Option<SnapshotId>,
    ) -> DiskResult<Version> {
        let block = index(&extent);
        let value = match image {
            None => Some(self.now[block]),
            Some(image) => self.image(image).map(|values| values[block]),
        };
        let Some(value) = value else { return DiskResult::Failed(DiskFault::Media) };
        let before = since.and_then(|since| self.image(since)).map(|values| values[block]);
        if before == Some(value) {
            return DiskResult::Pieces(Vec::new());
        }
        let data = (value != 0).then_some(value);
        DiskResult::Pieces(vec![Piece { extent, data }])
    }

    fn fault(&mut self, op: &DiskOp<Version>) -> Option<DiskFault> {
        let is_read = matches!(op, DiskOp::Read { .. } | DiskOp::Fetch { .. });
        let is_write = matches!(op, DiskOp::Write { .. } | DiskOp::Zero { .. });
        match self.ailment? {
            Ailment::Full if matches!(op, DiskOp::Write { .. } | DiskOp::Snapshot(_)) => {
                Some(DiskFault::NoSpace)
            }
            Ailment::Sync if *op == DiskOp::Flush => Some(DiskFault::Faulted),
            Ailment::Media if is_read => Some(DiskFault::Media),
            Ailment::Media if is_write => {
                self.ailment = None;
                None
            }
            _ => None,
        }
    }

    fn put(&mut self, extent: &Extent, value: Version) -> DiskResult<Version> {
        let block = index(extent);
        self.now[block] = value;
        if value == self.durable[block] && self.since[block].is_empty() {
            return DiskResult::Done;
        }
        if !self.since[block].contains(&value) {
            self.since[block].push(value);
            self.since[block].sort_unstable();
        }
        DiskResult::Done
    }

    /// Every state that a loss of power may leave.
    pub(super) fn after_power_loss(&self) -> Vec<Vec<Version>> {
        let mut states = vec![Vec::new()];
        for (block, since) in self.since.iter().enumerate() {
            let mut choices = since.clone();
            if !choices.contains(&self.durable[block]) {
                choices.push(self.durable[block]);
            }
            states = states
                .into_iter()
                .flat_map(|state| {
                    choices.iter().map(move |value| [state.as_slice(), &[*value]].concat())
                })
                .collect();
        }
        states
    }

    pub(super) fn lose_power(&mut self, left: Vec<Version>) {
        self.since.iter_mut().for_each(Vec::clear);
        self.durable.clone_from(&left);
        self.now = left;
    }
}

fn index(extent: &Extent) -> usize {
    usize::try_from(extent.start).expect("a small world has few blocks")
}
