//! Replicas: the machines, who speaks to them, and their pools.

use std::collections::BTreeMap;

use block::Buffer;
use mirror::{
    Answer, Class, DiskOp, DiskResult, Frozen, Piece, Replica, ReplicaOutput, Request, State,
};
use model::{Epoch, NodeId, PoolId, ReplicaId, SnapshotId, VolumeId};
use nvme::{
    Code, Op, Reply, Status, Vendor, reservation,
    target::{SessionId, Tag},
};
use pool::{Image, Note};

use super::{Shard, Work, front::Kind, pools::Asker, wire};
use crate::metrics::Flow;

#[derive(Debug, Default)]
pub(super) struct Replicas {
    pub(super) homes: BTreeMap<ReplicaId, Home>,
}

#[derive(Debug)]
pub(super) struct Home {
    pub(super) machine: Replica<Buffer>,
    pub(super) pool: PoolId,
    /// The node whose target is let in.
    pub(super) admitted: Option<NodeId>,
    callers: BTreeMap<u64, Caller>,
    pub(super) flow: Flow,
}

/// Who opened a session.
#[derive(Debug)]
struct Caller {
    whom: Side,
    /// What it fenced with.
    epoch: Epoch,
    state: Option<Box<State>>,
}

#[derive(Clone, Copy, Debug)]
enum Side {
    /// A remote target, over the port.
    Remote,
    /// A target of this engine, and the number by which it knows the session.
    Local { volume: VolumeId, session: u64 },
}

impl Home {
    pub(super) fn new(machine: Replica<Buffer>, pool: PoolId) -> Self {
        let (callers, flow) = (BTreeMap::new(), Flow::default());
        Self { machine, pool, admitted: None, callers, flow }
    }

    /// What the inventory tells of its machine.
    fn told(&self) -> (Option<Epoch>, usize) {
        (self.machine.admitted(), self.machine.snapshots().len())
    }
}

impl Shard {
    /// A command of a remote target.
    pub(super) fn replica_asked(
        &mut self,
        replica: ReplicaId,
        session: SessionId,
        tag: Tag,
        op: Op,
    ) {
        let asked = self.ask(session, tag, &op);
        let Some((session, number)) = asked else {
            self.front.port.complete(tag, Err(Code::Inaccessible.into()));
            return;
        };
        let Some(home) = self.replicas.homes.get_mut(&replica) else {
            self.front.answer(number, Err(Code::Inaccessible.into()));
            return;
        };
        let caller = home.callers.entry(session).or_insert(Caller {
            whom: Side::Remote,
            epoch: Epoch::ZERO,
            state: None,
        });
        let request = match understand(op) {
            Understood::Request(request) => request,
            Understood::Registered { epoch } => {
                caller.epoch = epoch;
                self.front.answer(number, Ok(Reply::Done));
                return;
            }
            Understood::State => {
                let state = caller.state.as_ref().and_then(|state| wire::put_state(state));
                let refused = Status::new(Code::CommandSequence);
                let checked = home.machine.check(session);
                let checked = checked.map_err(|fault| wire::status(fault, caller.epoch));
                let result = checked.and_then(|()| state.map(Reply::Data).ok_or(refused));
                self.front.answer(number, result);
                return;
            }
            Understood::Map { extent, image, since } => {
                let checked = home.machine.check(session);
                let checked = checked.map_err(|fault| wire::status(fault, caller.epoch));
                let result = checked.and_then(|()| self.alloc_map(replica, extent, image, since));
                self.front.answer(number, result);
                return;
            }
            Understood::Image { extent, image } => match self.numbered(replica, image) {
                Some(image) if extent.bytes() <= nvme::limits::TRANSFER_MAX as u64 => {
                    Request::Fetch { extent, image: Some(image), since: None }
                }
                _ => {
                    self.front.answer(number, Err(Code::InvalidField.into()));
                    return;
                }
            },
            Understood::Nothing => {
                self.front.answer(number, Err(Code::InvalidOpcode.into()));
                return;
            }
        };
        if let Request::Fence { epoch } = request
            && let Some(home) = self.replicas.homes.get_mut(&replica)
            && let Some(caller) = home.callers.get_mut(&session)
        {
            caller.epoch = epoch;
        }
        self.ask_replica(replica, session, number, request);
    }

    /// The snapshot that a pool knows by this number.
    fn numbered(&self, replica: ReplicaId, number: u32) -> Option<SnapshotId> {
        let mut all = self.numbers(replica).into_iter();
        all.find(|(_, known)| *known == number).map(|(snapshot, _)| snapshot)
    }

    fn numbers(&self, replica: ReplicaId) -> BTreeMap<SnapshotId, u32> {
        let home = self.replicas.homes.get(&replica);
        let pool = home.and_then(|home| self.pools.open(home.pool));
        let all = pool.into_iter().flat_map(pool::Pool::snapshots);
        let of = all.filter(|found| found.replica == replica);
        of.map(|found| (found.snapshot, found.number)).collect()
    }

    pub(super) fn ask_replica(
        &mut self,
        replica: ReplicaId,
        session: u64,
        tag: u64,
        request: Request<Buffer>,
    ) {
        self.with_replica(replica, |machine, out| machine.request(session, tag, request, out));
    }

    /// Lets a machine act. What is told of it may be different afterwards, whatever it was that
    /// made it so: an epoch is admitted when the disk has it and the last older command is done.
    fn with_replica(
        &mut self,
        replica: ReplicaId,
        act: impl FnOnce(&mut Replica<Buffer>, &mut Vec<ReplicaOutput<Buffer>>),
    ) {
        let Some(home) = self.replicas.homes.get_mut(&replica) else { return };
        let (before, mut out) = (home.told(), Vec::new());
        act(&mut home.machine, &mut out);
        self.is_stale |= home.told() != before;
        self.work.extend(out.into_iter().map(|output| Work::Replica(replica, output)));
    }

    /// A session of a target in this engine. False if the replica is not here.
    pub(super) fn open_local(
        &mut self,
        replica: ReplicaId,
        volume: VolumeId,
        session: u64,
        number: u64,
        epoch: Epoch,
    ) -> bool {
        let node = self.identity.node;
        let Some(home) = self.replicas.homes.get_mut(&replica) else { return false };
        if home.admitted != Some(node) || self.faults.hidden.contains(&replica) {
            return false;
        }
        let whom = Side::Local { volume, session };
        home.callers.insert(number, Caller { whom, epoch, state: None });
        true
    }

    pub(super) fn replica_session_closed(&mut self, replica: ReplicaId, session: u64) {
        let Some(home) = self.replicas.homes.get_mut(&replica) else { return };
        home.callers.remove(&session);
        self.with_replica(replica, |machine, out| machine.closed(session, out));
    }

    /// Ends every session that it has.
    pub(super) fn cut_replica(&mut self, replica: ReplicaId) {
        let Some(home) = self.replicas.homes.get(&replica) else { return };
        let callers: Vec<_> = home.callers.iter().map(|(id, caller)| (*id, caller.whom)).collect();
        for (number, whom) in callers {
            match whom {
                Side::Local { volume, session } => {
                    self.local_closed(replica, volume, session, number);
                }
                Side::Remote => self.front.end(number, Code::Inaccessible.into()),
            }
        }
    }

    pub(super) fn admit(&mut self, replica: ReplicaId, epoch: Epoch) {
        self.with_replica(replica, |machine, out| machine.admit(epoch, out));
    }

    pub(super) fn replica_says(&mut self, replica: ReplicaId, output: ReplicaOutput<Buffer>) {
        match output {
            ReplicaOutput::Disk { id, op, .. } => self.replica_disk(replica, id, op),
            ReplicaOutput::Reply { session, tag, answer } => {
                self.replica_replies(replica, session, tag, answer);
            }
            ReplicaOutput::Close { session } => {
                let home = self.replicas.homes.get_mut(&replica);
                match home.and_then(|home| home.callers.get(&session)).map(|caller| caller.whom) {
                    Some(Side::Local { volume, session: known }) => {
                        self.local_closed(replica, volume, known, session);
                    }
                    // Whatever it still waits for has no answer any more.
                    Some(Side::Remote) | None => {
                        self.front.end(session, Code::ReservationConflict.into());
                    }
                }
            }
        }
    }

    fn replica_replies(
        &mut self,
        replica: ReplicaId,
        session: u64,
        tag: u64,
        answer: Answer<Buffer>,
    ) {
        let numbers = match &answer {
            Answer::Images(_) => self.numbers(replica),
            _ => BTreeMap::new(),
        };
        let Some(home) = self.replicas.homes.get_mut(&replica) else { return };
        let Some(caller) = home.callers.get_mut(&session) else { return };
        match caller.whom {
            Side::Local { volume, session } => {
                let input = mirror::Input::Answer { child: replica, session, tag, answer };
                self.tell_target(volume, input);
            }
            Side::Remote => {
                let epoch = caller.epoch;
                let result = match answer {
                    Answer::Fenced(state) => {
                        caller.state = Some(state);
                        Ok(Reply::Done)
                    }
                    Answer::Done => Ok(Reply::Done),
                    Answer::Data(data) => Ok(Reply::Data(data)),
                    // A remote target has the map already, and reads a snapshot.
                    Answer::Pieces(pieces) => Ok(Reply::Data(joined(&pieces))),
                    Answer::Images(list) => {
                        let number =
                            |frozen: Frozen| Some((*numbers.get(&frozen.snapshot)?, frozen));
                        let list: Vec<_> = list.into_iter().filter_map(number).collect();
                        let refused = Status::new(Code::InternalError);
                        wire::put_images(&list).map(Reply::Data).ok_or(refused)
                    }
                    Answer::Failed(fault) => Err(wire::status(fault, epoch)),
                };
                let is_error = result.is_err();
                if let Some(asked) = self.front.answer(tag, result) {
                    let traffic = match asked.kind {
                        Kind::Read => &mut home.flow.read,
                        Kind::Write => &mut home.flow.write,
                        Kind::Flush => &mut home.flow.flush,
                        Kind::Keep | Kind::Other => return,
                    };
                    traffic.latency.add(asked.at.elapsed());
                    traffic.bytes += asked.bytes;
                    traffic.errors += u64::from(is_error);
                }
            }
        }
    }

    fn replica_disk(&mut self, replica: ReplicaId, id: u64, op: DiskOp<Buffer>) {
        let Some(home) = self.replicas.homes.get(&replica) else { return };
        let pool = home.pool;
        let mut asker = Asker::Replica { replica, id };
        let fua = |class: Class| class == Class::Durable;
        let request = match op {
            DiskOp::Read { extent } => {
                pool::Request::Read { image: Image::Replica(replica), extent }
            }
            DiskOp::Fetch { extent, image, since } => {
                let image = image_of(replica, image);
                let Ok(changed) = self.page_runs(replica, image, since, extent) else {
                    let missing = DiskResult::Failed(mirror::DiskFault::Media);
                    return self.replica_disk_done(replica, id, missing);
                };
                if changed.iter().all(|(_, has_data)| !has_data) {
                    let empty = |(extent, _)| Piece { extent, data: None };
                    let pieces = changed.into_iter().map(empty).collect();
                    return self.replica_disk_done(replica, id, DiskResult::Pieces(pieces));
                }
                asker = Asker::Fetch { replica, id, extent, runs: changed };
                pool::Request::Read { image, extent }
            }
            DiskOp::Write { extent, data, class } => {
                pool::Request::Write { replica, extent, data, fua: fua(class) }
            }
            DiskOp::Zero { extent, class } => {
                pool::Request::Zero { replica, extent, fua: fua(class) }
            }
            DiskOp::Flush => pool::Request::Flush,
            DiskOp::Note(note @ Note::Roster { .. }) => {
                asker = Asker::Roster { replica, id };
                pool::Request::Note { replica, notes: vec![note] }
            }
            DiskOp::Note(note) => pool::Request::Note { replica, notes: vec![note] },
            DiskOp::Snapshot(Frozen { snapshot, attempt, roster, blocks, name }) => {
                let blocks = Some(blocks);
                pool::Request::Snapshot { replica, snapshot, attempt, roster, blocks, name }
            }
            DiskOp::SnapAbort { attempt, .. } => pool::Request::AbortSnapshot { replica, attempt },
        };
        self.ask_pool(pool, asker, request);
    }

    pub(super) fn replica_disk_done(
        &mut self,
        replica: ReplicaId,
        id: u64,
        result: DiskResult<Buffer>,
    ) {
        self.with_replica(replica, |machine, out| machine.done(id, result, out));
        let Some(home) = self.replicas.homes.get(&replica) else { return };
        let pool = self.pools.homes.get(&home.pool);
        // An epoch that is durable now may be what a config or a new pool waits for.
        let waits = pool.is_some_and(|pool| !pool.is_settled) || self.applying.is_waiting();
        self.is_unsettled |= waits && !home.machine.is_faulted();
    }

    /// Runs of blocks that may differ from a snapshot, and whether there is data in them.
    fn page_runs(
        &self,
        replica: ReplicaId,
        image: Image,
        since: Option<SnapshotId>,
        extent: block::Extent,
    ) -> Result<Vec<(block::Extent, bool)>, pool::Error> {
        let home = self.replicas.homes.get(&replica);
        let pool = home.and_then(|home| self.pools.open(home.pool));
        pool.ok_or(pool::Error::NotFound)?.changes(image, since, extent)
    }

    fn alloc_map(
        &self,
        replica: ReplicaId,
        extent: block::Extent,
        image: u32,
        since: u32,
    ) -> Result<Reply, Status> {
        let bytes = wire::map_bytes(extent);
        let invalid = Status::new(Code::InvalidField);
        if bytes == 0 || 2 * bytes > nvme::limits::TRANSFER_MAX {
            return Err(invalid);
        }
        let snapshot = self.numbered(replica, image);
        if image != 0 && snapshot.is_none() {
            return Err(invalid);
        }
        let since = self.numbered(replica, since);
        let runs = self.page_runs(replica, image_of(replica, snapshot), since, extent);
        let mut map = vec![0_u8; 2 * bytes];
        for (run, has_data) in runs.map_err(|_| invalid)? {
            for block in run.range() {
                let at = usize::try_from(block - extent.start).unwrap_or(usize::MAX / 2);
                let bit = 1 << (at % 8);
                if has_data && let Some(byte) = map.get_mut(at / 8) {
                    *byte |= bit;
                }
                if let Some(byte) = map.get_mut(bytes + at / 8) {
                    *byte |= bit;
                }
            }
        }
        Ok(Reply::Data(Buffer::copy_of(&map)))
    }
}

fn image_of(replica: ReplicaId, snapshot: Option<SnapshotId>) -> Image {
    snapshot.map_or(Image::Replica(replica), |snapshot| Image::Snapshot(replica, snapshot))
}

/// Pieces that follow each other, as one.
fn joined(pieces: &[Piece<Buffer>]) -> Buffer {
    let mut bytes = Vec::new();
    for piece in pieces {
        if let Some(data) = &piece.data {
            bytes.extend_from_slice(data.bytes());
        } else {
            let len = usize::try_from(piece.extent.bytes()).unwrap_or(0);
            bytes.resize(bytes.len() + len, 0);
        }
    }
    Buffer::copy_of(&bytes)
}

/// What a command of a target means to a replica.
enum Understood {
    Request(Request<Buffer>),
    /// The epoch is announced; acquiring makes it count.
    Registered {
        epoch: Epoch,
    },
    State,
    Map {
        extent: block::Extent,
        image: u32,
        since: u32,
    },
    /// Blocks of a snapshot.
    Image {
        extent: block::Extent,
        image: u32,
    },
    Nothing,
}

fn understand(op: Op) -> Understood {
    let class = |fua: bool| if fua { Class::Durable } else { Class::Plain };
    Understood::Request(match op {
        Op::Read { extent } => Request::Read { extent },
        Op::Write { extent, data, fua } => Request::Write { extent, data, class: class(fua) },
        Op::Zero { extent, fua, .. } => Request::Zero { extent, class: class(fua) },
        Op::Flush => Request::Flush,
        // Proves that the session is still let in, and touches nothing.
        Op::Verify { .. } => Request::Ping,
        Op::Reservation(reservation::Command::Register { new, .. }) => {
            return Understood::Registered { epoch: Epoch(new) };
        }
        Op::Reservation(reservation::Command::Acquire { current, .. }) => {
            Request::Fence { epoch: Epoch(current) }
        }
        Op::Vendor(vendor) => return understand_vendor(&vendor),
        Op::Deallocate { .. } | Op::Compare { .. } | Op::Reservation(_) | Op::Persist(_) => {
            return Understood::Nothing;
        }
    })
}

fn understand_vendor(vendor: &Vendor) -> Understood {
    match vendor.opcode {
        wire::GET_STATE => Understood::State,
        wire::IMAGES => Understood::Request(Request::Images),
        wire::ALLOC_MAP => {
            let [_, since, _, _, _, image] = vendor.words;
            Understood::Map { extent: wire::asked_extent(vendor), image, since }
        }
        wire::READ_IMAGE => {
            Understood::Image { extent: wire::asked_extent(vendor), image: vendor.words[5] }
        }
        _ => wire::request(vendor).map_or(Understood::Nothing, Understood::Request),
    }
}

/// What was fetched, cut into what is there and what is not.
pub(super) fn pieces(
    data: &Buffer,
    whole: block::Extent,
    runs: &[(block::Extent, bool)],
) -> Vec<Piece<Buffer>> {
    let at = |block: u64| {
        usize::try_from((block - whole.start) * block::BLOCK as u64).unwrap_or(usize::MAX)
    };
    runs.iter()
        .map(|(extent, has_data)| {
            let data = has_data.then(|| data.slice(at(extent.start)..at(extent.end())));
            Piece { extent: *extent, data }
        })
        .collect()
}
