//! One change of a pool, as the journal keeps it.
//!
//! Memory changes only by applying these, so that replay cannot give anything else. Applying a
//! run of them again, in order, onto a state that already has some of them gives the same state.

use alloc::{string::String, vec::Vec};

use model::{AttemptId, Era, InstanceId, Mark, ReplicaId, Revision, Roster, SnapshotId, VolumeId};

use crate::{
    Note,
    codec::{Input, Malformed, put_bytes, put_u8, put_u32, put_u64, put_uuid},
    notes,
};

/// A place for 64 pages on the disk.
pub(crate) type Cluster = u32;

/// One layer of a replica's data: the live one, or a frozen one below it. Never reused.
pub(crate) type LayerId = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// These bytes were on their way to a page when this was written. Alone it counts only if the
    /// page is found with this checksum: it saves what was acknowledged from a crash of the
    /// process, without a sync.
    Hint {
        cluster: Cluster,
        layer: LayerId,
        logical: u32,
        page: u8,
        crc: u32,
    },
    /// The pages' data is durable.
    Map {
        cluster: Cluster,
        layer: LayerId,
        logical: u32,
        pages: u64,
    },
    /// The pages are gone; the cluster too if it has none left.
    Unmap {
        cluster: Cluster,
        layer: LayerId,
        pages: u64,
    },
    /// A merge gave the cluster to the layer above, with these pages alone.
    Move {
        cluster: Cluster,
        layer: LayerId,
        logical: u32,
        pages: u64,
    },
    Free {
        cluster: Cluster,
    },
    /// Nothing below shines through these pages of `count` logical clusters from `first` on.
    Hole {
        layer: LayerId,
        first: u32,
        count: u32,
        pages: u64,
    },
    Create(Create),
    Delete {
        replica: ReplicaId,
    },
    Resize {
        replica: ReplicaId,
        blocks: u64,
    },
    /// The replica's live layer is frozen; `layer` is the new one.
    Snapshot {
        replica: ReplicaId,
        layer: LayerId,
        frozen: Frozen,
    },
    /// Nobody asks for this frozen layer any more.
    Discard {
        layer: LayerId,
    },
    /// A discarded layer with nothing above it is gone.
    Drop {
        layer: LayerId,
    },
    /// A discarded layer, merged into the only one above it, is gone.
    Splice {
        layer: LayerId,
    },
    Note {
        replica: ReplicaId,
        note: Note,
    },
    /// What the controller is rebuilt from: of the pool itself, or of a replica.
    Carry {
        replica: Option<ReplicaId>,
        revision: Revision,
        bytes: Vec<u8>,
    },
    Mark {
        mark: Mark,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Create {
    pub replica: ReplicaId,
    pub volume: VolumeId,
    pub layer: LayerId,
    pub parent: Option<LayerId>,
    pub blocks: u64,
    pub thin: bool,
    pub birth: Option<Mark>,
    pub carried: (Revision, Vec<u8>),
}

/// What a frozen layer is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frozen {
    pub replica: ReplicaId,
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub attempt: AttemptId,
    /// When it was frozen first: two tries of one attempt are not the same image, and who was
    /// away then lacks it.
    pub roster: Roster,
    /// The size of the image. Its layer may be larger, and has nothing beyond.
    pub blocks: u64,
    pub name: String,
    pub discarded: bool,
}

impl Record {
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hint { cluster, layer, logical, page, crc } => {
                put_place(out, 1, *cluster, *layer, *logical);
                put_u8(out, *page);
                put_u32(out, *crc);
            }
            Self::Map { cluster, layer, logical, pages } => {
                put_place(out, 2, *cluster, *layer, *logical);
                put_u64(out, *pages);
            }
            Self::Unmap { cluster, layer, pages } => {
                put_u8(out, 3);
                put_u32(out, *cluster);
                put_u32(out, *layer);
                put_u64(out, *pages);
            }
            Self::Move { cluster, layer, logical, pages } => {
                put_place(out, 4, *cluster, *layer, *logical);
                put_u64(out, *pages);
            }
            Self::Free { cluster } => {
                put_u8(out, 5);
                put_u32(out, *cluster);
            }
            Self::Hole { layer, first, count, pages } => {
                put_place(out, 6, *layer, *first, *count);
                put_u64(out, *pages);
            }
            other => other.put_rare(out),
        }
    }

    fn put_rare(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create(create) => {
                put_u8(out, 7);
                create.put(out);
            }
            Self::Delete { replica } => {
                put_u8(out, 8);
                put_uuid(out, replica.0);
            }
            Self::Resize { replica, blocks } => {
                put_u8(out, 9);
                put_uuid(out, replica.0);
                put_u64(out, *blocks);
            }
            Self::Snapshot { replica, layer, frozen } => {
                put_u8(out, 10);
                put_uuid(out, replica.0);
                put_u32(out, *layer);
                frozen.put(out);
            }
            Self::Discard { layer } => put_layer(out, 11, *layer),
            Self::Drop { layer } => put_layer(out, 12, *layer),
            Self::Splice { layer } => put_layer(out, 13, *layer),
            Self::Note { replica, note } => {
                put_u8(out, 14);
                put_uuid(out, replica.0);
                notes::put_note(out, note);
            }
            Self::Carry { replica, revision, bytes } => {
                put_u8(out, 15);
                put_u8(out, replica.is_some().into());
                put_uuid(out, replica.map_or_else(uuid::Uuid::nil, |replica| replica.0));
                put_u64(out, revision.0);
                put_bytes(out, bytes);
            }
            Self::Mark { mark } => {
                put_u8(out, 16);
                put_mark(out, *mark);
            }
            _ => unreachable!("the frequent ones are put by their own function"),
        }
    }

    pub fn read(input: &mut Input) -> Result<Self, Malformed> {
        match input.u8()? {
            tag @ (1..=6 | 11..=13) => Self::read_frequent(tag, input),
            tag => Self::read_rare(tag, input),
        }
    }

    fn read_frequent(tag: u8, input: &mut Input) -> Result<Self, Malformed> {
        let first = input.u32()?;
        Ok(match tag {
            1 => {
                let (layer, logical) = (input.u32()?, input.u32()?);
                let page = Some(input.u8()?).filter(|page| *page < 64).ok_or(Malformed)?;
                Self::Hint { cluster: first, layer, logical, page, crc: input.u32()? }
            }
            2 | 4 => {
                let (layer, logical, pages) = (input.u32()?, input.u32()?, input.u64()?);
                match tag {
                    2 => Self::Map { cluster: first, layer, logical, pages },
                    _ => Self::Move { cluster: first, layer, logical, pages },
                }
            }
            3 => Self::Unmap { cluster: first, layer: input.u32()?, pages: input.u64()? },
            5 => Self::Free { cluster: first },
            6 => {
                let (start, count, pages) = (input.u32()?, input.u32()?, input.u64()?);
                Self::Hole { layer: first, first: start, count, pages }
            }
            11 => Self::Discard { layer: first },
            12 => Self::Drop { layer: first },
            13 => Self::Splice { layer: first },
            _ => return Err(Malformed),
        })
    }

    fn read_rare(tag: u8, input: &mut Input) -> Result<Self, Malformed> {
        Ok(match tag {
            7 => Self::Create(Create::read(input)?),
            8 => Self::Delete { replica: ReplicaId(input.uuid()?) },
            9 => Self::Resize { replica: ReplicaId(input.uuid()?), blocks: input.u64()? },
            10 => Self::Snapshot {
                replica: ReplicaId(input.uuid()?),
                layer: input.u32()?,
                frozen: Frozen::read(input)?,
            },
            14 => Self::Note { replica: ReplicaId(input.uuid()?), note: notes::note(input)? },
            15 => {
                let is_replica = input.bool()?;
                let id = ReplicaId(input.uuid()?);
                Self::Carry {
                    replica: is_replica.then_some(id),
                    revision: Revision(input.u64()?),
                    bytes: input.bytes()?.into(),
                }
            }
            16 => Self::Mark { mark: mark(input)? },
            _ => return Err(Malformed),
        })
    }
}

impl Create {
    fn put(&self, out: &mut Vec<u8>) {
        put_uuid(out, self.replica.0);
        put_uuid(out, self.volume.0);
        put_u32(out, self.layer);
        put_u32(out, self.parent.unwrap_or(0));
        put_u64(out, self.blocks);
        put_u8(out, self.thin.into());
        put_birth(out, self.birth);
        put_u64(out, self.carried.0.0);
        put_bytes(out, &self.carried.1);
    }

    fn read(input: &mut Input) -> Result<Self, Malformed> {
        Ok(Self {
            replica: ReplicaId(input.uuid()?),
            volume: VolumeId(input.uuid()?),
            layer: input.u32()?,
            parent: Some(input.u32()?).filter(|parent| *parent != 0),
            blocks: input.u64()?,
            thin: input.bool()?,
            birth: birth(input)?,
            carried: (Revision(input.u64()?), input.bytes()?.into()),
        })
    }
}

impl Frozen {
    pub fn put(&self, out: &mut Vec<u8>) {
        put_uuid(out, self.replica.0);
        put_uuid(out, self.volume.0);
        put_uuid(out, self.snapshot.0);
        put_uuid(out, self.attempt.0);
        put_u64(out, self.roster.0);
        put_u64(out, self.blocks);
        put_bytes(out, self.name.as_bytes());
        put_u8(out, self.discarded.into());
    }

    pub fn read(input: &mut Input) -> Result<Self, Malformed> {
        Ok(Self {
            replica: ReplicaId(input.uuid()?),
            volume: VolumeId(input.uuid()?),
            snapshot: SnapshotId(input.uuid()?),
            attempt: AttemptId(input.uuid()?),
            roster: Roster(input.u64()?),
            blocks: input.u64()?,
            name: input.text()?,
            discarded: input.bool()?,
        })
    }
}

fn put_place(out: &mut Vec<u8>, tag: u8, a: u32, b: u32, c: u32) {
    put_u8(out, tag);
    put_u32(out, a);
    put_u32(out, b);
    put_u32(out, c);
}

fn put_layer(out: &mut Vec<u8>, tag: u8, layer: LayerId) {
    put_u8(out, tag);
    put_u32(out, layer);
}

pub(crate) fn put_mark(out: &mut Vec<u8>, mark: Mark) {
    put_uuid(out, mark.era.0);
    put_uuid(out, mark.term.0);
    put_u64(out, mark.revision.0);
}

pub(crate) fn mark(input: &mut Input) -> Result<Mark, Malformed> {
    Ok(Mark {
        era: Era(input.uuid()?),
        term: InstanceId(input.uuid()?),
        revision: Revision(input.u64()?),
    })
}

pub(crate) fn put_birth(out: &mut Vec<u8>, birth: Option<Mark>) {
    put_u8(out, birth.is_some().into());
    if let Some(birth) = birth {
        put_mark(out, birth);
    }
}

pub(crate) fn birth(input: &mut Input) -> Result<Option<Mark>, Malformed> {
    if input.bool()? { mark(input).map(Some) } else { Ok(None) }
}
