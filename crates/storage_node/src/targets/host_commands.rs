//! Commands of hosts: what they ask of the target's machine, and what its answers mean to them.

use alloc::{collections::BTreeMap, vec::Vec};

use block::{Buffer, Durability, Extent};
use mirror::{Command, HostFault, HostReply, HostResult};
use model::VolumeId;
use nvme::{Code, Op, Reply, Status};

use super::Targets;
use crate::{context::ShardContext, registry::Handle, reservations};

/// Commands that are several to the machine, or whose answer needs a look, by number.
#[derive(Debug, Default)]
pub(super) struct HostCommands {
    composed: BTreeMap<u64, Composed>,
}

/// What becomes of a command's answer.
#[derive(Debug)]
enum Composed {
    /// Parts of one command: the last one answers it.
    Part {
        whole: u64,
    },
    Whole {
        left: usize,
        fault: Option<Status>,
    },
    /// The data must be this.
    Compare(Buffer),
    /// The data is not sent.
    Verify,
}

/// Numbers of parts differ from those of commands by this bit.
const PART: u64 = 1 << 63;

impl Targets {
    /// A command of a host.
    pub(crate) fn host_command(
        &mut self,
        cx: &mut ShardContext,
        volume: Handle<VolumeId>,
        session: u64,
        number: u64,
        op: Op,
    ) {
        let Some(entry) = self.entries.at_mut(volume) else {
            return cx.port.answer(cx.now, number, Err(Code::Inaccessible.into()));
        };
        let composed = &mut entry.commands.composed;
        let command = match op {
            Op::Read { extent } => Command::Read { extent },
            Op::Write { extent, data, durability } => Command::Write { extent, data, durability },
            Op::Flush => Command::Flush,
            Op::Zero { extent, durability, .. } => Command::Zero { extent, durability },
            Op::Compare { extent, data } => {
                composed.insert(number, Composed::Compare(data));
                Command::Read { extent }
            }
            Op::Verify { extent } => {
                composed.insert(number, Composed::Verify);
                Command::Read { extent }
            }
            Op::Deallocate { extents } => {
                return self.deallocate(cx, volume, session, number, &extents);
            }
            Op::Persist(reserved) => Command::Reserve(reservations::kept(&reserved)),
            // Only replicas keep numbers.
            Op::NumberedFlush { .. } | Op::Reservation(_) | Op::Vendor(_) => {
                return cx.port.answer(cx.now, number, Err(Code::InvalidOpcode.into()));
            }
        };
        self.take_command(cx, volume, session, number, command);
    }

    fn take_command(
        &mut self,
        cx: &mut ShardContext,
        volume: Handle<VolumeId>,
        session: u64,
        tag: u64,
        command: Command<Buffer>,
    ) {
        self.with_target(cx, volume, |machine, now, out| {
            machine.take_command(now, session, tag, command, out);
        });
    }

    fn deallocate(
        &mut self,
        cx: &mut ShardContext,
        volume: Handle<VolumeId>,
        session: u64,
        number: u64,
        extents: &[Extent],
    ) {
        let extents: Vec<_> = extents.iter().flat_map(|extent| cut(*extent)).collect();
        let Some(entry) = self.entries.at_mut(volume) else { return };
        if extents.is_empty() {
            return cx.port.answer(cx.now, number, Ok(Reply::Done));
        }
        let whole = Composed::Whole { left: extents.len(), fault: None };
        entry.commands.composed.insert(number, whole);
        for extent in extents {
            let part = PART | cx.port.next_number();
            if let Some(entry) = self.entries.at_mut(volume) {
                entry.commands.composed.insert(part, Composed::Part { whole: number });
            }
            let command = Command::Zero { extent, durability: Durability::Volatile };
            self.take_command(cx, volume, session, part, command);
        }
    }
}

impl HostCommands {
    /// The host's command that this answers, and how; nothing while parts of it are under way.
    pub(super) fn finish(
        &mut self,
        reply: HostReply<Buffer>,
    ) -> Option<(u64, Result<Reply, Status>)> {
        let HostReply { tag, result, .. } = reply;
        let result = match result {
            HostResult::Done => Ok(Reply::Done),
            HostResult::Data(data) => Ok(Reply::Data(data)),
            HostResult::Failed(fault) => Err(status(fault)),
        };
        if self.composed.is_empty() {
            return Some((tag, result));
        }
        let result = match self.composed.remove(&tag) {
            None => result,
            Some(Composed::Verify) => result.map(|_| Reply::Done),
            Some(Composed::Compare(expected)) => match result {
                Ok(Reply::Data(found)) if found == expected => Ok(Reply::Done),
                Ok(_) => Err(Code::CompareFailure.into()),
                Err(status) => Err(status),
            },
            Some(Composed::Part { whole }) => return self.finish_part(whole, result.err()),
            Some(Composed::Whole { .. }) => return None,
        };
        Some((tag, result))
    }

    fn finish_part(
        &mut self,
        whole: u64,
        error: Option<Status>,
    ) -> Option<(u64, Result<Reply, Status>)> {
        let Some(Composed::Whole { left, fault }) = self.composed.get_mut(&whole) else {
            return None;
        };
        *left -= 1;
        *fault = fault.or(error);
        if *left > 0 {
            return None;
        }
        let result = fault.map_or(Ok(Reply::Done), Err);
        self.composed.remove(&whole);
        Some((whole, result))
    }
}

/// Parts of at most 16 MiB: none holds the lock for long, and each fits one command.
fn cut(extent: Extent) -> impl Iterator<Item = Extent> {
    const BLOCKS: u32 = 4096;
    (0..extent.blocks)
        .step_by(BLOCKS as usize)
        .map(move |at| Extent::new(extent.start + u64::from(at), BLOCKS.min(extent.blocks - at)))
}

fn status(fault: HostFault) -> Status {
    match fault {
        HostFault::OutOfRange => Code::LbaOutOfRange.into(),
        HostFault::NoSpace => Status::new(Code::CapacityExceeded).never_again(),
        HostFault::WriteFault => Status::new(Code::WriteFault).never_again(),
        HostFault::Unreadable => Code::UnrecoveredRead.into(),
    }
}
