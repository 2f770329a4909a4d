//! What a frame of the file says, in bytes.
//!
//! Little-endian numbers, length before text. Checksums are `format`'s business: what arrives here
//! was written by us, and what still does not decode is damage.

use core::{fmt, time::Duration};
use std::sync::Arc;

use ports::{Change, Entry, Kept, Key, LeaseId, Revision};

use crate::memory::record::{Changed, Record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The first frame: what the frames that follow it start from.
    Base(BaseFrame),
    /// An entry as it was at the revision of the base.
    Entry(Arc<Entry>),
    /// A lease that was alive when the file was rewritten.
    Lease(Kept),
    Record(Record),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BaseFrame {
    pub(super) revision: Revision,
    pub(super) entries: u64,
    pub(super) leases: u64,
    /// The highest lease id ever given, so that none is given twice.
    pub(super) last_lease: u64,
}

/// One line of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dumped {
    Base {
        revision: Revision,
        entries: u64,
        leases: u64,
    },
    /// An entry as it was at the revision of the base.
    Entry(Entry),
    Changed {
        revision: Revision,
        change: Change,
    },
    LeaseGranted(Kept),
    LeaseEnded(LeaseId),
    Compacted {
        before: Revision,
    },
}

impl Frame {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Base(base) => {
                out.push(kind::BASE);
                for number in [base.revision.0, base.entries, base.leases, base.last_lease] {
                    put_u64(out, number);
                }
            }
            Self::Entry(entry) => {
                out.push(kind::ENTRY);
                put_entry(out, entry);
            }
            Self::Lease(Kept { lease, ttl }) => {
                out.push(kind::LEASE);
                put_lease(out, *lease, *ttl);
            }
            Self::Record(record) => put_record(out, record),
        }
    }

    /// `None` if the bytes are not exactly one frame.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let frame = match cursor.u8()? {
            kind::BASE => Self::Base(BaseFrame {
                revision: Revision(cursor.u64()?),
                entries: cursor.u64()?,
                leases: cursor.u64()?,
                last_lease: cursor.u64()?,
            }),
            kind::ENTRY => Self::Entry(Arc::new(cursor.entry()?)),
            kind::LEASE => Self::Lease(cursor.lease()?),
            kind::CHANGED => Self::Record(cursor.changed()?),
            kind::GRANTED => {
                let Kept { lease, ttl } = cursor.lease()?;
                Self::Record(Record::Granted { lease, ttl })
            }
            kind::ENDED => Self::Record(Record::Ended { lease: LeaseId(cursor.u64()?) }),
            kind::COMPACTED => Self::Record(Record::Compacted { before: Revision(cursor.u64()?) }),
            _ => return None,
        };
        cursor.0.is_empty().then_some(frame)
    }

    pub(super) fn dumped(self) -> Vec<Dumped> {
        match self {
            Self::Base(BaseFrame { revision, entries, leases, .. }) => {
                vec![Dumped::Base { revision, entries, leases }]
            }
            Self::Entry(entry) => vec![Dumped::Entry(Arc::unwrap_or_clone(entry))],
            Self::Lease(kept) => vec![Dumped::LeaseGranted(kept)],
            Self::Record(Record::Changed { revision, changes }) => changes
                .iter()
                .map(|change| Dumped::Changed { revision, change: change.told(revision) })
                .collect(),
            Self::Record(Record::Granted { lease, ttl }) => {
                vec![Dumped::LeaseGranted(Kept { lease, ttl })]
            }
            Self::Record(Record::Ended { lease }) => vec![Dumped::LeaseEnded(lease)],
            Self::Record(Record::Compacted { before }) => vec![Dumped::Compacted { before }],
        }
    }
}

impl fmt::Display for Dumped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base { revision, entries, leases } => {
                write!(f, "base at revision {revision}: {entries} entries, {leases} leases")
            }
            Self::Entry(entry) => write!(f, "entry {}", Line(entry)),
            Self::Changed { revision, change: Change::Put(entry) } => {
                write!(f, "revision {revision} put {}", Line(entry))
            }
            Self::Changed { revision, change: Change::Deleted { key, .. } } => {
                write!(f, "revision {revision} delete {key}")
            }
            Self::LeaseGranted(Kept { lease, ttl }) => {
                write!(f, "lease {} granted for {ttl:?}", lease.0)
            }
            Self::LeaseEnded(lease) => write!(f, "lease {} ended", lease.0),
            Self::Compacted { before } => write!(f, "history before {before} compacted"),
        }
    }
}

struct Line<'a>(&'a Entry);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { key, value, created, modified, lease } = self.0;
        write!(f, "{key} created {created} modified {modified}")?;
        if let Some(lease) = lease {
            write!(f, " lease {}", lease.0)?;
        }
        write!(f, " {}", value.escape_ascii())
    }
}

mod kind {
    pub(super) const BASE: u8 = 1;
    pub(super) const ENTRY: u8 = 2;
    pub(super) const LEASE: u8 = 3;
    pub(super) const CHANGED: u8 = 4;
    pub(super) const GRANTED: u8 = 5;
    pub(super) const ENDED: u8 = 6;
    pub(super) const COMPACTED: u8 = 7;
    pub(super) const PUT: u8 = 8;
    pub(super) const DELETED: u8 = 9;
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_lease(out: &mut Vec<u8>, lease: LeaseId, ttl: Duration) {
    put_u64(out, lease.0);
    put_u64(out, ttl.as_secs());
    put_u64(out, u64::from(ttl.subsec_nanos()));
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_u64(out, entry.created.0);
    put_u64(out, entry.modified.0);
    // Leases count from 1, so 0 is free to mean none.
    put_u64(out, entry.lease.map_or(0, |lease| lease.0));
    put_bytes(out, entry.key.as_bytes());
    put_bytes(out, &entry.value);
}

fn put_record(out: &mut Vec<u8>, record: &Record) {
    match record {
        Record::Changed { revision, changes } => {
            out.push(kind::CHANGED);
            put_u64(out, revision.0);
            for change in changes {
                match change {
                    Changed::Put(entry) => {
                        out.push(kind::PUT);
                        put_entry(out, entry);
                    }
                    Changed::Deleted(key) => {
                        out.push(kind::DELETED);
                        put_bytes(out, key.as_bytes());
                    }
                }
            }
        }
        Record::Granted { lease, ttl } => {
            out.push(kind::GRANTED);
            put_lease(out, *lease, *ttl);
        }
        Record::Ended { lease } => {
            out.push(kind::ENDED);
            put_u64(out, lease.0);
        }
        Record::Compacted { before } => {
            out.push(kind::COMPACTED);
            put_u64(out, before.0);
        }
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u64()?).ok()?;
        self.take(count)
    }

    fn key(&mut self) -> Option<Key> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn lease(&mut self) -> Option<Kept> {
        let lease = LeaseId(self.u64()?);
        let (seconds, nanos) = (self.u64()?, u32::try_from(self.u64()?).ok()?);
        (nanos < 1_000_000_000).then(|| Kept { lease, ttl: Duration::new(seconds, nanos) })
    }

    fn entry(&mut self) -> Option<Entry> {
        let (created, modified) = (Revision(self.u64()?), Revision(self.u64()?));
        let lease = Some(self.u64()?).filter(|lease| *lease != 0).map(LeaseId);
        Some(Entry { created, modified, lease, key: self.key()?, value: self.bytes()?.to_vec() })
    }

    fn changed(&mut self) -> Option<Record> {
        let revision = Revision(self.u64()?);
        let mut changes = Vec::new();
        while !self.0.is_empty() {
            changes.push(match self.u8()? {
                kind::PUT => Changed::Put(Arc::new(self.entry()?)),
                kind::DELETED => Changed::Deleted(self.key()?),
                _ => return None,
            });
        }
        Some(Record::Changed { revision, changes })
    }
}
