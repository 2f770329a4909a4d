//! Requests of any bytes, as commands on whole blocks.
//!
//! ```text
//! (turn) ─▶ edges are read ─▶ commands ─▶ finished
//! ```
//! A change that has only a part of a block reads the block first. Changes of one block take turns:
//! else what another one wrote between that read and its own write would be undone.

use std::collections::BTreeMap;

use block::{BLOCK, Buffer, Durability, Extent};
use nvme::{Code, Reply, Status};

use super::{Errno, Op, Span, turns::Turns};

/// Blocks of one command that moves no data.
const UNMOVED: u32 = 1 << 12;

#[derive(Debug)]
pub struct Work {
    /// Blocks that one command may move.
    moved: u32,
    open: BTreeMap<u64, Open>,
    /// Commands by their tag: the request, and the place.
    parts: BTreeMap<u64, (u64, Extent)>,
    turns: Turns,
    last: u64,
}

#[derive(Debug)]
struct Open {
    op: Op,
    stage: Stage,
    /// Commands without an answer.
    left: usize,
    failed: Option<Errno>,
}

#[derive(Debug)]
enum Stage {
    /// Blocks that are changed in part, as they were.
    Edges(BTreeMap<u64, Buffer>),
    /// What was read for the client, of whole blocks.
    Commands(Option<Buffer>),
}

/// A request is done; one that reads has data.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    pub number: u64,
    pub result: Result<Option<Buffer>, Errno>,
}

/// What follows: commands by their tags, and answers.
#[derive(Debug, Default)]
pub struct Next {
    pub commands: Vec<(u64, nvme::Op)>,
    pub finished: Vec<Finished>,
}

impl Work {
    /// For a volume that moves at most so many bytes by one command.
    pub fn new(max_transfer: usize) -> Self {
        let moved = u32::try_from(max_transfer / BLOCK).unwrap_or(u32::MAX).max(1);
        let (open, parts) = (BTreeMap::new(), BTreeMap::new());
        Self { moved, open, parts, turns: Turns::default(), last: 0 }
    }

    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes a request, and gives the number by which it is known.
    pub fn start(&mut self, op: Op, next: &mut Next) -> u64 {
        self.last += 1;
        let number = self.last;
        let changed = match &op {
            Op::Read { .. } | Op::Flush => None,
            Op::Write { span, .. } | Op::Zero { span, .. } => Some(span.covering()),
            Op::Trim { span, .. } => Some(span.whole()),
        };
        if changed.is_some_and(|changed| changed.blocks == 0) {
            // A hint on less than a block.
            next.finished.push(Finished { number, result: Ok(None) });
            return number;
        }
        let stage = Stage::Edges(BTreeMap::new());
        self.open.insert(number, Open { op, stage, left: 0, failed: None });
        if changed.is_none_or(|changed| self.turns.enter(number, changed)) {
            self.begin(number, next);
        }
        number
    }

    fn begin(&mut self, number: u64, next: &mut Next) {
        let Some(open) = self.open.get(&number) else { return };
        let edges: Vec<u64> = match &open.op {
            Op::Write { span, .. } | Op::Zero { span, .. } => span.edges().collect(),
            Op::Read { .. } | Op::Trim { .. } | Op::Flush => Vec::new(),
        };
        if edges.is_empty() {
            return self.act(number, next);
        }
        for block in edges {
            let extent = Extent::new(block, 1);
            self.ask(number, extent, nvme::Op::Read { extent }, next);
        }
    }

    /// The edges are known: does what was asked for.
    fn act(&mut self, number: u64, next: &mut Next) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let commands = open.commands(self.moved);
        for (extent, command) in commands {
            self.ask(number, extent, command, next);
        }
    }

    fn ask(&mut self, number: u64, extent: Extent, command: nvme::Op, next: &mut Next) {
        self.last += 1;
        self.parts.insert(self.last, (number, extent));
        next.commands.push((self.last, command));
        if let Some(open) = self.open.get_mut(&number) {
            open.left += 1;
        }
    }

    /// The answer to a command.
    pub fn answered(&mut self, tag: u64, result: Result<Reply, Status>, next: &mut Next) {
        let Some((number, part)) = self.parts.remove(&tag) else { return };
        let Some(open) = self.open.get_mut(&number) else { return };
        open.left -= 1;
        match result {
            Ok(Reply::Data(data)) => open.take(part, data),
            Ok(Reply::Done) => {}
            Err(status) => open.failed = Some(errno(status)),
        }
        if open.left > 0 {
            return;
        }
        if matches!(open.stage, Stage::Edges(_)) && open.failed.is_none() {
            return self.act(number, next);
        }
        let Some(open) = self.open.remove(&number) else { return };
        next.finished.push(Finished { number, result: open.result() });
        for waiting in self.turns.leave(number) {
            self.begin(waiting, next);
        }
    }
}

impl Open {
    fn take(&mut self, part: Extent, from: Buffer) {
        match (&mut self.stage, &self.op) {
            (Stage::Edges(edges), _) => {
                edges.insert(part.start, from);
            }
            (Stage::Commands(Some(to)), Op::Read { span }) => {
                let at = place(part.start - span.covering().start);
                if let Some(to) = to.get_mut() {
                    to[at..at + from.len()].copy_from_slice(from.bytes());
                }
            }
            (Stage::Commands(_), _) => {}
        }
    }

    fn commands(&mut self, moved: u32) -> Vec<(Extent, nvme::Op)> {
        let Stage::Edges(edges) = std::mem::replace(&mut self.stage, Stage::Commands(None)) else {
            return Vec::new();
        };
        let zero = |part: Extent, deallocate: bool, durability: Durability| {
            (part, nvme::Op::Zero { extent: part, deallocate, durability })
        };
        match &mut self.op {
            Op::Flush => vec![(Extent::new(0, 0), nvme::Op::Flush)],
            Op::Read { span } => {
                self.stage = Stage::Commands(Some(Buffer::zeroed(span.covering_bytes())));
                let parts = cut(span.covering(), moved);
                parts.map(|part| (part, nvme::Op::Read { extent: part })).collect()
            }
            Op::Trim { span, durability } => {
                cut(span.whole(), UNMOVED).map(|part| zero(part, true, *durability)).collect()
            }
            Op::Zero { span, may_deallocate, durability } => {
                let whole =
                    cut(span.whole(), UNMOVED).map(|part| zero(part, *may_deallocate, *durability));
                let partly = edges.iter().map(|(block, before)| {
                    let extent = Extent::new(*block, 1);
                    let mut data = Buffer::zeroed(BLOCK);
                    restore(span, *block, before, &mut data, 0);
                    (extent, nvme::Op::Write { extent, data, durability: *durability })
                });
                whole.chain(partly).collect()
            }
            Op::Write { span, data, durability } => {
                let covering = span.covering();
                for (block, before) in &edges {
                    restore(span, *block, before, data, place(block - covering.start));
                }
                let write = |part: Extent| {
                    let at = place(part.start - covering.start);
                    let data = data.slice(at..at + place(u64::from(part.blocks)));
                    (part, nvme::Op::Write { extent: part, data, durability: *durability })
                };
                cut(covering, moved).map(write).collect()
            }
        }
    }

    fn result(self) -> Result<Option<Buffer>, Errno> {
        if let Some(errno) = self.failed {
            return Err(errno);
        }
        match (self.stage, self.op) {
            (Stage::Commands(Some(data)), Op::Read { span }) => {
                Ok(Some(data.slice(span.head()..span.head() + span.len as usize)))
            }
            _ => Ok(None),
        }
    }
}

/// Puts back what a block had outside the span; the block's place in `data` is `at`.
fn restore(span: &Span, block: u64, before: &Buffer, data: &mut Buffer, at: usize) {
    let Some(to) = data.get_mut() else { return };
    for kept in span.outside(block) {
        to[at + kept.start..at + kept.end].copy_from_slice(&before.bytes()[kept]);
    }
}

/// Bytes of so many blocks.
fn place(blocks: u64) -> usize {
    usize::try_from(blocks).unwrap_or(0) * BLOCK
}

/// Parts of at most so many blocks.
fn cut(extent: Extent, most: u32) -> impl Iterator<Item = Extent> {
    (0..extent.blocks)
        .step_by(most as usize)
        .map(move |at| Extent::new(extent.start + u64::from(at), most.min(extent.blocks - at)))
}

fn errno(status: Status) -> Errno {
    match status.code {
        Code::CapacityExceeded => Errno::NoSpace,
        Code::LbaOutOfRange | Code::InvalidField => Errno::Invalid,
        code if code.numbers().0 == 3 => Errno::Shutdown,
        _ => Errno::Io,
    }
}

#[cfg(test)]
mod tests;
