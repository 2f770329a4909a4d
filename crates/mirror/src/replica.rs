//! One copy of a volume, in one pool: what it lets in, and what must be durable before what.
//!
//! ```text
//!            Fence of a new session, or an epoch admitted by the config
//! nobody ──────────────▶ fencing ──────────────▶ one session
//!   ▲  ▲                   │  the epoch is durable,    │
//!   │  └───────────────────┘  older commands drained   │
//!   └───────────────────────── closed, or fenced ◀─────┘
//! ```
//! It owns no disk: operations come out with a number, and their results come in. The disk makes
//! notes durable in the order in which they were asked for.

mod fence;
mod flush;
mod io;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use block::{Bitmap, Extent};
use model::{Epoch, InstanceId, ReplicaId, SnapshotId};
use pool::{Absent, Boot, Header, Image, Note, Reply};

use self::{fence::Fencing, flush::Flushes, io::Held};
use crate::{Answer, Fault, Frozen, Geometry, Request, State, flaw::Flawed, in_flight::InFlight};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaOutput<D> {
    /// Answered by `done`, in any order. `session` asked for it; nobody, if the config did.
    Disk {
        id: u64,
        session: Option<u64>,
        op: pool::Request<D>,
    },
    Reply {
        session: u64,
        tag: u64,
        answer: Answer<D>,
    },
    /// This connection is over: whatever still comes from it is refused.
    Close {
        session: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica<D> {
    id: ReplicaId,
    instance: InstanceId,
    boot: Boot,
    geometry: Geometry,
    /// With every note that was asked for, durable or not.
    header: Header,
    /// Oldest first.
    snapshots: Vec<Frozen>,
    /// The only session whose commands are taken.
    current: Option<u64>,
    fencing: Option<Fencing>,
    /// What the disk is doing.
    doing: InFlight<Doing>,
    next: u64,
    /// Regions whose dirty note is under way, and its number.
    marking: BTreeMap<u64, u64>,
    /// Writes that wait for such notes.
    held: VecDeque<Held<D>>,
    flushes: Flushes,
    /// A target has counted on it since the import.
    is_in_use: bool,
    is_faulted: bool,
    /// Sessions that only a flaw lets in: always none in the product.
    lingering: Vec<u64>,
    flawed: Flawed,
}

/// For whom the disk does something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Doing {
    session: Option<u64>,
    tag: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Read,
    Write {
        extent: Extent,
    },
    /// Both parts of a flush: its mark, and what it makes durable.
    Flush,
    /// Regions are being marked for writes that wait.
    Mark,
    /// The epoch is being noted.
    Fence,
    /// The answer is all that waits for it.
    Note,
    Snapshot(Frozen),
    SnapAbort {
        snapshot: SnapshotId,
    },
}

type Absences = BTreeMap<ReplicaId, Absent>;
type Out<D> = Vec<ReplicaOutput<D>>;

impl<D: Clone> Replica<D> {
    /// As the import of its pool found it. `instance` is new with every import.
    pub fn import(
        id: ReplicaId,
        instance: InstanceId,
        boot: Boot,
        geometry: Geometry,
        header: Header,
        snapshots: Vec<Frozen>,
    ) -> Self {
        Self {
            id,
            instance,
            boot,
            geometry,
            header,
            snapshots,
            current: None,
            fencing: None,
            doing: InFlight::default(),
            next: 0,
            marking: BTreeMap::new(),
            held: VecDeque::new(),
            flushes: Flushes::default(),
            is_in_use: false,
            is_faulted: false,
            lingering: Vec::new(),
            flawed: Flawed::default(),
        }
    }

    /// With one rule left out.
    #[cfg(feature = "flaws")]
    #[must_use]
    pub fn flawed(mut self, flaw: crate::Flaw) -> Self {
        self.flawed = Flawed::by(flaw);
        self
    }

    pub const fn header(&self) -> &Header {
        &self.header
    }

    pub const fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Oldest first.
    pub fn snapshots(&self) -> &[Frozen] {
        &self.snapshots
    }

    pub const fn is_faulted(&self) -> bool {
        self.is_faulted
    }

    /// Whether every acknowledged write that it took is still here.
    pub fn is_intact(&self) -> bool {
        self.header.is_intact(self.boot)
    }

    pub fn request(&mut self, session: u64, tag: u64, request: Request<D>, out: &mut Out<D>) {
        if let Request::Fence { epoch } = request {
            self.fence(session, tag, epoch, out);
            return;
        }
        match self.check(session) {
            Ok(()) => self.take(session, tag, request, out),
            Err(fault) => out.push(failed(session, tag, fault)),
        }
    }

    /// Whether anything but a fence is answered to this session: what is asked past the machine
    /// (its state, which blocks it has) is no exception.
    pub fn check(&self, session: u64) -> Result<(), Fault> {
        let is_let_in = self.current == Some(session)
            || self.flawed.leaves_out(crate::Flaw::EpochUnchecked)
            || self.lingering.contains(&session);
        if !is_let_in {
            return Err(Fault::Stale { epoch: self.header.epoch });
        }
        if self.is_faulted { Err(Fault::Faulted) } else { Ok(()) }
    }

    fn take(&mut self, session: u64, tag: u64, request: Request<D>, out: &mut Out<D>) {
        let (by, replica) = (Some((session, tag)), self.id);
        match request {
            Request::Fence { .. } | Request::Ping => out.push(done(session, tag)),
            Request::Read { extent } => {
                let op = pool::Request::Read { image: Image::Replica(replica), extent };
                self.run(by, What::Read, op, out);
            }
            Request::Fetch { extent, image, since } => {
                let image = Image::of(replica, image);
                self.run(by, What::Read, pool::Request::Fetch { image, since, extent }, out);
            }
            Request::Write { extent, data, durability } => {
                let op = pool::Request::Write { replica, extent, data, durability };
                self.write((session, tag), extent, op, out);
            }
            Request::Zero { extent, durability } => {
                let op = pool::Request::Zero { replica, extent, durability };
                self.write((session, tag), extent, op, out);
            }
            Request::Resync(piece) => self.resync((session, tag), piece, out),
            Request::Flush { mark } => self.flush(session, tag, mark, out),
            Request::Roster { roster, members, absent, mut flushed, intact } => {
                let intact = (intact || self.is_intact()).then_some(self.boot);
                let absent = self.with_own_marks(absent);
                flushed.remove(&self.id);
                self.is_in_use = true;
                self.note(by, Note::Roster { roster, members, absent, flushed, intact }, out);
            }
            Request::Absent { absent } => {
                let absent = self.with_own_marks(absent);
                self.note(by, Note::Absent { absent }, out);
            }
            Request::Clean { regions, mut flushed } => {
                flushed.remove(&self.id);
                self.clean(session, tag, Note::Clean { regions, flushed }, out);
            }
            Request::Copied { peer, regions } => {
                self.note(by, Note::Copied { peer, regions }, out);
            }
            Request::Snapshot(frozen) => self.freeze(session, tag, frozen, out),
            Request::Images => {
                let answer = Answer::Images(self.snapshots.clone());
                out.push(ReplicaOutput::Reply { session, tag, answer });
            }
            Request::SnapAbort { snapshot, attempt } => {
                let is_it = |held: &Frozen| held.snapshot == snapshot && held.attempt == attempt;
                if !self.snapshots.iter().any(is_it) {
                    out.push(done(session, tag));
                    return;
                }
                let what = What::SnapAbort { snapshot };
                self.run(by, what, pool::Request::AbortSnapshot { replica, attempt }, out);
            }
            Request::Stop => self.note(by, Note::Stopped, out),
        }
    }

    fn freeze(&mut self, session: u64, tag: u64, frozen: Frozen, out: &mut Out<D>) {
        let held = self.snapshots.iter().find(|held| held.snapshot == frozen.snapshot);
        match held {
            Some(held) if held.is_same(&frozen) => out.push(done(session, tag)),
            // Two tries hold different data: the older one must go first.
            Some(_) => out.push(failed(session, tag, Fault::Refused)),
            None => {
                let what = What::Snapshot(frozen.clone());
                let (replica, blocks) = (self.id, Some(frozen.blocks));
                let Frozen { snapshot, attempt, roster, name, .. } = frozen;
                let op =
                    pool::Request::Snapshot { replica, snapshot, attempt, roster, blocks, name };
                self.run(Some((session, tag)), what, op, out);
            }
        }
    }

    /// The pool's answer. An unknown number is one that came twice: nothing waits for it.
    pub fn done(&mut self, id: u64, result: Result<Reply<D>, pool::Error>, out: &mut Out<D>) {
        let Some(doing) = self.doing.remove(id) else { return };
        let fault = result.as_ref().err().map(fault);
        self.is_faulted |= fault == Some(Fault::Faulted);
        match &doing.what {
            What::Flush => self.flushed(fault, out),
            What::Mark => self.marked(id, fault, out),
            What::Fence => self.epoch_noted(fault, out),
            What::Snapshot(frozen) if fault.is_none() => self.snapshots.push(frozen.clone()),
            What::SnapAbort { snapshot } if fault.is_none() => {
                self.snapshots.retain(|held| held.snapshot != *snapshot);
            }
            // A note that was not taken is in memory and not on the disk.
            What::Note if fault.is_some() => self.is_faulted = true,
            _ => {}
        }
        if let Some(session) = doing.session
            && !matches!(doing.what, What::Flush | What::Mark | What::Fence)
        {
            let answer = match result {
                Err(error) => Answer::Failed(self::fault(&error)),
                Ok(Reply::Data(data)) => Answer::Data(data),
                Ok(Reply::Pieces(pieces)) => Answer::Pieces(pieces),
                Ok(Reply::Done | Reply::Hashes(_)) => Answer::Done,
            };
            out.push(ReplicaOutput::Reply { session, tag: doing.tag, answer });
        }
        self.finish_fence(out);
    }

    /// The config no longer wants a snapshot, or a tombstone named it.
    pub fn forget_snapshot(&mut self, snapshot: SnapshotId) {
        self.snapshots.retain(|held| held.snapshot != snapshot);
    }

    fn note(&mut self, by: Option<(u64, u64)>, note: Note, out: &mut Out<D>) {
        self.run_note(by, What::Note, note, out);
    }

    /// Takes the note in memory and asks the disk for it.
    fn run_note(&mut self, by: Option<(u64, u64)>, what: What, note: Note, out: &mut Out<D>) {
        self.header.take(&note);
        let op = pool::Request::Note { replica: self.id, note: Box::new(note) };
        self.run(by, what, op, out);
    }

    fn run(&mut self, by: Option<(u64, u64)>, what: What, op: pool::Request<D>, out: &mut Out<D>) {
        if self.doing.is_empty() && self.held.is_empty() {
            // Numbers need to differ only among what is under way.
            self.next = 0;
        }
        let id = self.next;
        self.next += 1;
        let session = by.map(|(session, _)| session);
        let tag = by.map_or(0, |(_, tag)| tag);
        self.doing.insert(id, Doing { session, tag, what });
        out.push(ReplicaOutput::Disk { id, session, op });
    }

    /// A write may overtake the request that was sent before it: what it marked stays marked.
    fn with_own_marks(&self, mut absent: Absences) -> Absences {
        for (peer, theirs) in &mut absent {
            if let Some(own) = self.header.absent.get(peer).filter(|own| own.base == theirs.base) {
                theirs.regions.merge(&own.regions);
            }
        }
        absent
    }

    fn state(&self) -> State {
        State {
            instance: self.instance,
            header: self.header.clone(),
            intact: self.is_intact(),
            is_in_use: self.is_in_use,
            snapshots: self.snapshots.clone(),
        }
    }

    /// Regions with a write that the disk has not done.
    fn in_flight(&self) -> Bitmap {
        let doing = self.doing.values().filter_map(|doing| match doing.what {
            What::Write { extent } => Some(extent),
            _ => None,
        });
        let held = self.held.iter().map(Held::extent);
        doing.chain(held).flat_map(|extent| self.geometry.regions(extent)).collect()
    }

    fn clean(&mut self, session: u64, tag: u64, note: Note, out: &mut Out<D>) {
        let Note::Clean { regions, .. } = &note else { return };
        let mut busy = self.in_flight();
        busy.merge(self.flushes.unflushed());
        let is_refused = regions.iter().any(|region| busy.contains(*region));
        if is_refused && !self.flawed.leaves_out(crate::Flaw::CleanUnchecked) {
            out.push(failed(session, tag, Fault::Refused));
            return;
        }
        self.note(Some((session, tag)), note, out);
    }

    /// The highest epoch that is durable and has no older command under way.
    pub fn admitted(&self) -> Option<Epoch> {
        let is_settled = self.fencing.as_ref().is_none_or(Fencing::is_settled);
        is_settled.then_some(self.header.epoch)
    }
}

fn done<D>(session: u64, tag: u64) -> ReplicaOutput<D> {
    ReplicaOutput::Reply { session, tag, answer: Answer::Done }
}

fn failed<D>(session: u64, tag: u64, fault: Fault) -> ReplicaOutput<D> {
    ReplicaOutput::Reply { session, tag, answer: Answer::Failed(fault) }
}

fn fault(error: &pool::Error) -> Fault {
    match error {
        pool::Error::NoSpace => Fault::NoSpace,
        pool::Error::Faulted { .. } | pool::Error::Exported => Fault::Faulted,
        _ => Fault::Media,
    }
}

/// The note that marks regions for a write.
fn dirty(header: &Header, regions: Vec<u64>) -> Note {
    let lacked_by = header.absent.keys().copied().collect::<Vec<_>>();
    Note::Dirty { regions, lacked_by }
}
