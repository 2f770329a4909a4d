//! A disk that forgets what was not flushed.

use block::Extent;
use mirror::Frozen;
use model::SnapshotId;
use pool::{Error, Fault, FetchedPiece, Header, Image, IoError, Reply, Request};

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

type Answer = Result<Reply<Version>, Error>;

const FAILED: IoError = IoError { code: 5 };

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

    pub(super) fn run(&mut self, op: &Request<Version>) -> Answer {
        if let Some(error) = self.error(op) {
            return Err(error);
        }
        match op {
            Request::Read { extent, .. } => return Ok(Reply::Data(self.now[index(extent)])),
            Request::Fetch { image, since, extent } => return self.fetch(*extent, *image, *since),
            Request::Write { extent, data, .. } => self.put(extent, *data),
            Request::Zero { extent, .. } => self.put(extent, 0),
            Request::Flush => self.flush(),
            Request::Note { note, .. } => self.header.take(note),
            Request::Snapshot { snapshot, attempt, roster, blocks, name, .. } => {
                let (snapshot, attempt, roster) = (*snapshot, *attempt, *roster);
                let (blocks, name) = (blocks.unwrap_or_default(), name.clone());
                let frozen = Frozen { snapshot, attempt, roster, blocks, name };
                self.images.push((frozen, self.now.clone()));
                self.flush();
            }
            Request::AbortSnapshot { attempt, .. } => {
                self.images.retain(|(held, _)| held.attempt != *attempt);
            }
            other => unreachable!("no replica asks for {other:?}"),
        }
        Ok(Reply::Done)
    }

    fn flush(&mut self) {
        self.durable.clone_from(&self.now);
        self.since.iter_mut().for_each(Vec::clear);
    }

    fn snapshot(&self, snapshot: SnapshotId) -> Option<&Vec<Version>> {
        let found = self.images.iter().find(|(frozen, _)| frozen.snapshot == snapshot);
        found.map(|(_, values)| values)
    }

    fn fetch(&self, extent: Extent, image: Image, since: Option<SnapshotId>) -> Answer {
        let block = index(&extent);
        let value = match image {
            Image::Replica(_) => Some(self.now[block]),
            Image::Snapshot(_, image) => self.snapshot(image).map(|values| values[block]),
        };
        let Some(value) = value else { return Err(Error::Io(FAILED)) };
        let before = since.and_then(|since| self.snapshot(since)).map(|values| values[block]);
        if before == Some(value) {
            return Ok(Reply::Pieces(Vec::new()));
        }
        let data = (value != 0).then_some(value);
        Ok(Reply::Pieces(vec![FetchedPiece { extent, data }]))
    }

    fn error(&mut self, op: &Request<Version>) -> Option<Error> {
        let is_read = matches!(op, Request::Read { .. } | Request::Fetch { .. });
        let is_write = matches!(op, Request::Write { .. } | Request::Zero { .. });
        match self.ailment? {
            Ailment::Full if matches!(op, Request::Write { .. } | Request::Snapshot { .. }) => {
                Some(Error::NoSpace)
            }
            Ailment::Sync if *op == Request::Flush => {
                Some(Error::Faulted { fault: Fault::Sync(FAILED) })
            }
            Ailment::Media if is_read => Some(Error::Io(FAILED)),
            Ailment::Media if is_write => {
                self.ailment = None;
                None
            }
            _ => None,
        }
    }

    fn put(&mut self, extent: &Extent, value: Version) {
        let block = index(extent);
        self.now[block] = value;
        if value == self.durable[block] && self.since[block].is_empty() {
            return;
        }
        if !self.since[block].contains(&value) {
            self.since[block].push(value);
            self.since[block].sort_unstable();
        }
    }

    /// As a copy of the whole disk would hold it: with what is in its cache, or without.
    pub(super) fn image(&self, is_cached: bool) -> Self {
        let left = if is_cached { self.now.clone() } else { self.durable.clone() };
        let mut image = self.clone();
        image.lose_power(left);
        image
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
