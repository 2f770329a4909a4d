//! Headers and notes as bytes.
//!
//! Pools that were made before flushes had marks are read as well: what they have not written has
//! numbers of its own ([`Layout::Unmarked`]), and is only read.

use alloc::{collections::BTreeMap, vec::Vec};

use model::{Epoch, FlushMark, ReplicaId, Roster};

use crate::{
    Absent, Boot, Header, Note,
    codec::{Input, Malformed, put_bytes, put_count, put_numbers, put_u8, put_u64, put_uuid},
};

/// How a header, or a note, was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Before flushes had marks.
    Unmarked,
    Marked,
}

pub(crate) fn put_header(out: &mut Vec<u8>, header: &Header) {
    put_u64(out, header.epoch.0);
    put_u64(out, header.roster.0);
    put_members(out, &header.members);
    put_u8(out, header.clean.into());
    put_boot(out, header.intact);
    put_numbers(out, header.dirty.words());
    put_absent(out, &header.absent);
    put_bytes(out, &header.reservations);
    put_mark(out, header.flushed);
    put_marks(out, &header.peers);
}

pub(crate) fn header(input: &mut Input, layout: Layout) -> Result<Header, Malformed> {
    let mut header = Header {
        epoch: Epoch(input.u64()?),
        roster: Roster(input.u64()?),
        members: members(input)?,
        clean: input.bool()?,
        intact: boot(input)?,
        dirty: input.bitmap()?,
        absent: absent(input, layout)?,
        reservations: input.bytes()?.into(),
        flushed: FlushMark::NONE,
        peers: BTreeMap::new(),
    };
    if layout == Layout::Marked {
        header.flushed = mark(input)?;
        header.peers = marks(input)?;
    }
    Ok(header)
}

pub(crate) fn put_note(out: &mut Vec<u8>, note: &Note) {
    match note {
        Note::Fence { epoch } => {
            put_u8(out, 1);
            put_u64(out, epoch.0);
        }
        Note::Roster { roster, members, absent, flushed, intact } => {
            put_u8(out, 9);
            put_u64(out, roster.0);
            put_members(out, members);
            put_absent(out, absent);
            put_boot(out, *intact);
            put_marks(out, flushed);
        }
        Note::Absent { absent } => {
            put_u8(out, 10);
            put_absent(out, absent);
        }
        Note::Dirty { regions, lacked_by } => {
            put_u8(out, 4);
            put_numbers(out, regions);
            put_count(out, lacked_by.len());
            for peer in lacked_by {
                put_uuid(out, peer.0);
            }
        }
        Note::Clean { regions, flushed } => {
            put_u8(out, 11);
            put_numbers(out, regions);
            put_marks(out, flushed);
        }
        Note::Copied { peer, regions } => {
            put_u8(out, 6);
            put_uuid(out, peer.0);
            put_numbers(out, regions);
        }
        Note::Stopped => put_u8(out, 7),
        Note::Reservations { state } => {
            put_u8(out, 8);
            put_bytes(out, state);
        }
        Note::Flushed { mark } => {
            put_u8(out, 12);
            put_mark(out, *mark);
        }
    }
}

pub(crate) fn note(input: &mut Input) -> Result<Note, Malformed> {
    Ok(match input.u8()? {
        1 => Note::Fence { epoch: Epoch(input.u64()?) },
        2 => roster(input, Layout::Unmarked)?,
        3 => Note::Absent { absent: absent(input, Layout::Unmarked)? },
        4 => Note::Dirty {
            regions: input.numbers()?,
            lacked_by: (0..input.count(16)?)
                .map(|_| input.uuid().map(ReplicaId))
                .collect::<Result<_, _>>()?,
        },
        5 => Note::Clean { regions: input.numbers()?, flushed: BTreeMap::new() },
        6 => Note::Copied { peer: ReplicaId(input.uuid()?), regions: input.numbers()? },
        7 => Note::Stopped,
        8 => Note::Reservations { state: input.bytes()?.into() },
        9 => roster(input, Layout::Marked)?,
        10 => Note::Absent { absent: absent(input, Layout::Marked)? },
        11 => Note::Clean { regions: input.numbers()?, flushed: marks(input)? },
        12 => Note::Flushed { mark: mark(input)? },
        _ => return Err(Malformed),
    })
}

fn roster(input: &mut Input, layout: Layout) -> Result<Note, Malformed> {
    Ok(Note::Roster {
        roster: Roster(input.u64()?),
        members: members(input)?,
        absent: absent(input, layout)?,
        intact: boot(input)?,
        flushed: match layout {
            Layout::Unmarked => BTreeMap::new(),
            Layout::Marked => marks(input)?,
        },
    })
}

/// Whether every region that it names is one of a replica of `regions` regions: any other number
/// would make a bitmap grow without end.
pub(crate) fn fits(note: &Note, regions: u64) -> bool {
    let within = |list: &[u64]| list.iter().all(|region| *region < regions);
    let words = usize::try_from(regions.div_ceil(64)).unwrap_or(usize::MAX);
    let all = |absent: &BTreeMap<ReplicaId, Absent>| {
        absent.values().all(|absent| absent.regions.words().len() <= words)
    };
    match note {
        Note::Fence { .. } | Note::Stopped | Note::Reservations { .. } | Note::Flushed { .. } => {
            true
        }
        Note::Roster { absent, .. } | Note::Absent { absent } => all(absent),
        Note::Dirty { regions, .. }
        | Note::Clean { regions, .. }
        | Note::Copied { regions, .. } => within(regions),
    }
}

fn put_boot(out: &mut Vec<u8>, boot: Option<Boot>) {
    put_u8(out, boot.is_some().into());
    if let Some(Boot(boot)) = boot {
        out.extend_from_slice(&boot.to_le_bytes());
    }
}

fn boot(input: &mut Input) -> Result<Option<Boot>, Malformed> {
    if input.bool()? { input.u128().map(|boot| Some(Boot(boot))) } else { Ok(None) }
}

fn put_members(out: &mut Vec<u8>, members: &BTreeMap<ReplicaId, bool>) {
    put_count(out, members.len());
    for (replica, is_healthy) in members {
        put_uuid(out, replica.0);
        put_u8(out, (*is_healthy).into());
    }
}

fn members(input: &mut Input) -> Result<BTreeMap<ReplicaId, bool>, Malformed> {
    let count = input.count(17)?;
    (0..count).map(|_| Ok((ReplicaId(input.uuid()?), input.bool()?))).collect()
}

fn put_absent(out: &mut Vec<u8>, absent: &BTreeMap<ReplicaId, Absent>) {
    put_count(out, absent.len());
    for (peer, Absent { base, flushed, regions }) in absent {
        put_uuid(out, peer.0);
        put_u64(out, base.0);
        put_numbers(out, regions.words());
        put_mark(out, *flushed);
    }
}

fn absent(input: &mut Input, layout: Layout) -> Result<BTreeMap<ReplicaId, Absent>, Malformed> {
    let count = input.count(28)?;
    (0..count)
        .map(|_| {
            let peer = ReplicaId(input.uuid()?);
            let (base, regions) = (Roster(input.u64()?), input.bitmap()?);
            let flushed = match layout {
                Layout::Unmarked => FlushMark::NONE,
                Layout::Marked => mark(input)?,
            };
            Ok((peer, Absent { base, flushed, regions }))
        })
        .collect()
}

fn put_mark(out: &mut Vec<u8>, mark: FlushMark) {
    put_u64(out, mark.epoch.0);
    put_u64(out, mark.number);
}

fn mark(input: &mut Input) -> Result<FlushMark, Malformed> {
    Ok(FlushMark { epoch: Epoch(input.u64()?), number: input.u64()? })
}

fn put_marks(out: &mut Vec<u8>, marks: &BTreeMap<ReplicaId, FlushMark>) {
    put_count(out, marks.len());
    for (replica, mark) in marks {
        put_uuid(out, replica.0);
        put_mark(out, *mark);
    }
}

fn marks(input: &mut Input) -> Result<BTreeMap<ReplicaId, FlushMark>, Malformed> {
    let count = input.count(32)?;
    (0..count).map(|_| Ok((ReplicaId(input.uuid()?), mark(input)?))).collect()
}
