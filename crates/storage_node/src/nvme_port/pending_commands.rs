//! Commands that wait for their answer, and what they are counted as.

use alloc::vec::Vec;
use core::time::Duration;

use nvme::{Op, target::Tag};

use super::Export;
use crate::registry::Handle;

/// What a command is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Read,
    Write,
    Flush,
    /// Reservations to be kept; not measured.
    Reserve,
    /// Not measured.
    Other,
}

/// A command that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCommand {
    pub(super) number: u64,
    pub(super) tag: Tag,
    pub(super) session: u64,
    pub(super) export: Handle<Export>,
    pub(super) kind: CommandKind,
    pub(super) bytes: u64,
    pub(super) arrived: Duration,
}

/// Commands by number. A number names one command and never another one.
#[derive(Debug, Default)]
pub(super) struct PendingCommands {
    entries: Vec<Option<PendingCommand>>,
    free: Vec<u32>,
    count: u32,
}

impl PendingCommands {
    pub(super) fn insert(&mut self, command: impl FnOnce(u64) -> PendingCommand) -> u64 {
        self.count = self.count.wrapping_add(1);
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("far fewer commands than that")
        });
        let number = u64::from(self.count) << 32 | u64::from(index);
        self.entries[index as usize] = Some(command(number));
        number
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<PendingCommand> {
        let index = u32::try_from(number & u64::from(u32::MAX)).ok()?;
        let entry = self.entries.get_mut(index as usize)?;
        entry.as_ref().filter(|command| command.number == number)?;
        self.free.push(index);
        entry.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingCommand> {
        self.entries.iter().flatten()
    }
}

pub(super) fn measure(op: &Op) -> (CommandKind, u64) {
    match op {
        Op::Read { extent } | Op::Compare { extent, .. } => (CommandKind::Read, extent.bytes()),
        Op::Write { extent, .. } | Op::Zero { extent, .. } => (CommandKind::Write, extent.bytes()),
        Op::Flush | Op::NumberedFlush { .. } => (CommandKind::Flush, 0),
        Op::Persist(_) => (CommandKind::Reserve, 0),
        _ => (CommandKind::Other, 0),
    }
}
