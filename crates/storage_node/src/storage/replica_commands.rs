//! What the commands of a remote target mean to a replica, and the answers that are made here.

use alloc::{vec, vec::Vec};

use block::{Buffer, Extent};
use mirror::Request;
use model::{Epoch, FlushMark, ReplicaId};
use nvme::{Code, Op, Reply, Status, Vendor, reservation};
use pool::{FetchedPiece, Image};

use super::{Storage, replicas::ReplicaSession};
use crate::{context::ShardContext, registry::Handle, replica_protocol as protocol};

/// What a command of a target means to a replica.
enum ReplicaCommand {
    Request(Request<Buffer>),
    /// The epoch is announced; acquiring makes it count.
    Register {
        epoch: Epoch,
    },
    GetState,
    AllocMap {
        extent: Extent,
        image: u32,
        since: u32,
    },
    ReadSnapshot {
        extent: Extent,
        image: u32,
    },
    Unknown,
}

impl Storage {
    /// A command of a remote target.
    pub(crate) fn replica_command(
        &mut self,
        cx: &mut ShardContext,
        replica: Handle<ReplicaId>,
        session: u64,
        number: u64,
        op: Op,
    ) {
        let command = decode(op);
        match self.run_command(replica, session, command) {
            Ok(request) => self.ask_replica(cx, replica, session, number, request),
            Err(result) => cx.port.answer(cx.now, number, result),
        }
    }

    /// What to ask the machine for, or the answer.
    fn run_command(
        &mut self,
        replica: Handle<ReplicaId>,
        session: u64,
        command: ReplicaCommand,
    ) -> Result<Request<Buffer>, Result<Reply, Status>> {
        let entry = self.replicas.at_mut(replica);
        let entry = entry.ok_or(Err(Status::from(Code::Inaccessible)))?;
        let known = entry.sessions.entry(session).or_insert(ReplicaSession::remote());
        let checked = entry.machine.check(session);
        let checked = checked.map_err(|fault| protocol::status(fault, known.epoch));
        match command {
            ReplicaCommand::Request(request) => Ok(match request {
                Request::Fence { epoch } => {
                    known.epoch = epoch;
                    request
                }
                Request::Flush { mark: Some(mark) } => {
                    let mark = FlushMark { epoch: known.epoch, ..mark };
                    Request::Flush { mark: Some(mark) }
                }
                request => request,
            }),
            ReplicaCommand::Register { epoch } => {
                known.epoch = epoch;
                Err(Ok(Reply::Done))
            }
            ReplicaCommand::GetState => {
                let state = known.state.as_ref().and_then(|state| protocol::put_state(state));
                let refused = Status::new(Code::CommandSequence);
                Err(checked.and_then(|()| state.map(Reply::Data).ok_or(refused)))
            }
            ReplicaCommand::AllocMap { extent, image, since } => {
                Err(checked.and_then(|()| self.alloc_map(replica.id, extent, image, since)))
            }
            ReplicaCommand::ReadSnapshot { extent, image } => {
                let image = self.numbered_snapshot(replica.id, image);
                let is_small = extent.bytes() <= nvme::limits::TRANSFER_MAX as u64;
                match image.filter(|_| is_small) {
                    None => Err(Err(Code::InvalidField.into())),
                    image => Ok(Request::Fetch { extent, image, since: None }),
                }
            }
            ReplicaCommand::Unknown => Err(Err(Code::InvalidOpcode.into())),
        }
    }

    fn alloc_map(
        &self,
        replica: ReplicaId,
        extent: Extent,
        image: u32,
        since: u32,
    ) -> Result<Reply, Status> {
        let bytes = protocol::map_bytes(extent);
        let invalid = Status::new(Code::InvalidField);
        if bytes == 0 || 2 * bytes > nvme::limits::TRANSFER_MAX {
            return Err(invalid);
        }
        let snapshot = self.numbered_snapshot(replica, image);
        if image != 0 && snapshot.is_none() {
            return Err(invalid);
        }
        let since = self.numbered_snapshot(replica, since);
        let runs = self.page_runs(replica, Image::of(replica, snapshot), since, extent);
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

fn decode(op: Op) -> ReplicaCommand {
    ReplicaCommand::Request(match op {
        Op::Read { extent } => Request::Read { extent },
        Op::Write { extent, data, durability } => Request::Write { extent, data, durability },
        Op::Zero { extent, durability, .. } => Request::Zero { extent, durability },
        Op::Flush => Request::Flush { mark: None },
        Op::NumberedFlush { number } => {
            // Whose it is, the session tells.
            let mark = FlushMark { epoch: Epoch::ZERO, number };
            Request::Flush { mark: Some(mark) }
        }
        // Proves that the session is still let in, and touches nothing.
        Op::Verify { .. } => Request::Ping,
        Op::Reservation(reservation::Command::Register { new, .. }) => {
            return ReplicaCommand::Register { epoch: Epoch(new) };
        }
        Op::Reservation(reservation::Command::Acquire { current, .. }) => {
            Request::Fence { epoch: Epoch(current) }
        }
        Op::Vendor(vendor) => return decode_vendor(&vendor),
        Op::Deallocate { .. } | Op::Compare { .. } | Op::Reservation(_) | Op::Persist(_) => {
            return ReplicaCommand::Unknown;
        }
    })
}

fn decode_vendor(vendor: &Vendor) -> ReplicaCommand {
    match vendor.opcode {
        protocol::GET_STATE => ReplicaCommand::GetState,
        protocol::IMAGES => ReplicaCommand::Request(Request::Images),
        protocol::ALLOC_MAP => {
            let [_, since, _, _, _, image] = vendor.words;
            ReplicaCommand::AllocMap { extent: protocol::asked_extent(vendor), image, since }
        }
        protocol::READ_IMAGE => ReplicaCommand::ReadSnapshot {
            extent: protocol::asked_extent(vendor),
            image: vendor.words[5],
        },
        _ => protocol::request(vendor).map_or(ReplicaCommand::Unknown, ReplicaCommand::Request),
    }
}

/// Pieces that follow each other, as one.
pub(super) fn joined(pieces: &[FetchedPiece<Buffer>]) -> Buffer {
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
