//! The commands under way on one connection.

use alloc::{boxed::Box, vec, vec::Vec};

use block::Buffer;

use crate::wire::command::Sqe;

/// What a command waits for.
#[derive(Debug)]
pub(crate) enum Slot {
    Free,
    /// Room for its data: the peer has not been asked yet.
    Credit {
        sqe: Sqe,
        bytes: usize,
    },
    /// Its data, of which the first bytes are there.
    Data {
        sqe: Sqe,
        data: Buffer,
        filled: usize,
        is_intact: bool,
    },
    /// The caller's answer, which may carry so many bytes.
    Answer {
        cid: u16,
        reply_max: usize,
        is_io: bool,
    },
    /// An event.
    Event {
        cid: u16,
    },
    /// Other reservation commands, or what they abort.
    Turn {
        sqe: Sqe,
        data: Option<Buffer>,
    },
    /// All commands of preempted hosts to end; then it is answered well.
    Quiet {
        cid: u16,
    },
}

#[derive(Debug)]
pub(crate) struct Slots {
    places: Vec<Slot>,
    generations: Vec<u16>,
    free: Vec<u16>,
    /// One bit for each command identifier in use. Hosts draw them from all 65,536.
    cids: Box<[u64]>,
    entries: u16,
    busy: u16,
}

impl Slots {
    pub(crate) fn new(entries: u16) -> Self {
        let (places, generations, free) = (Vec::new(), Vec::new(), Vec::new());
        Self { places, generations, free, cids: vec![0; 1024].into(), entries, busy: 0 }
    }

    /// After Connect the queue has the size that the host asked for.
    pub(crate) fn resize(&mut self, entries: u16) {
        self.entries = entries;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.busy >= self.entries
    }

    pub(crate) fn has_cid(&self, cid: u16) -> bool {
        self.cids[usize::from(cid / 64)] & 1 << (cid % 64) != 0
    }

    /// A place for a command that was just received.
    pub(crate) fn open(&mut self, cid: u16) -> u16 {
        self.cids[usize::from(cid / 64)] |= 1 << (cid % 64);
        self.busy += 1;
        if let Some(index) = self.free.pop() {
            return index;
        }
        let index = u16::try_from(self.places.len()).expect("no more slots than queue entries");
        self.places.push(Slot::Free);
        self.generations.push(0);
        index
    }

    pub(crate) fn put(&mut self, index: u16, slot: Slot) {
        self.places[usize::from(index)] = slot;
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Slot> {
        self.places.get(usize::from(index))
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Slot> {
        self.places.get_mut(usize::from(index))
    }

    /// What was there; the slot stays the command's.
    pub(crate) fn take(&mut self, index: u16) -> Slot {
        core::mem::replace(&mut self.places[usize::from(index)], Slot::Free)
    }

    /// The command is over.
    pub(crate) fn close(&mut self, index: u16, cid: u16) {
        self.cids[usize::from(cid / 64)] &= !(1 << (cid % 64));
        self.busy -= 1;
        self.places[usize::from(index)] = Slot::Free;
        let generation = &mut self.generations[usize::from(index)];
        *generation = generation.wrapping_add(1);
        self.free.push(index);
    }

    pub(crate) fn generation(&self, index: u16) -> u16 {
        self.generations.get(usize::from(index)).copied().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Slot)> {
        (0u16..).zip(&self.places)
    }

    /// Whether the caller still owes an answer.
    pub(crate) fn is_owed(&self) -> bool {
        self.places.iter().any(|slot| matches!(slot, Slot::Answer { .. }))
    }
}
