//! The catalog: replicas, the layers of their data, and what the controller is rebuilt from.
//!
//! It is written whole into one of two areas in turn, and the superblock says which one counts.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use block::REGION;
use model::{Mark, PoolId, ReplicaId, Revision, VolumeId};

use crate::{
    Header,
    codec::{
        Input, Malformed, index, put_bytes, put_count, put_numbers, put_u8, put_u32, put_u64,
        put_uuid,
    },
    frame::{self, Magic, PAYLOAD},
    geometry::CLUSTER,
    map::{Holes, Map},
    notes::{self, Layout},
    record::{self, Create, Frozen, LayerId, Record},
};

const MAGIC: Magic = *b"HoldfPCA";

/// Bytes of the catalog in one block of its area, after the block's index.
const ROOM: usize = PAYLOAD - 8;

/// Largest replica: 64 TiB.
pub const MOST_BLOCKS: u64 = 1 << 34;

#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    pub replicas: BTreeMap<ReplicaId, Replica>,
    pub layers: BTreeMap<LayerId, Layer>,
    /// The number of the next layer.
    pub next_layer: LayerId,
    pub mark: Option<Mark>,
    /// The pool's own record, at which revision.
    pub carried: (Revision, Vec<u8>),
}

#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub volume: VolumeId,
    /// The one that is written to.
    pub layer: LayerId,
    pub thin: bool,
    pub birth: Option<Mark>,
    pub carried: (Revision, Vec<u8>),
    pub header: Header,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    pub parent: Option<LayerId>,
    pub blocks: u64,
    /// `None` for a replica's live layer.
    pub frozen: Option<Frozen>,
    pub holes: Holes,
    /// Derived: its clusters, from the cluster table.
    pub map: Map,
    /// Derived: layers that have it as parent.
    pub children: u32,
}

impl Layer {
    pub fn is_discarded(&self) -> bool {
        self.frozen.as_ref().is_some_and(|frozen| frozen.discarded)
    }
}

/// How many clusters hold so many blocks.
pub(crate) fn clusters(blocks: u64) -> u32 {
    u32::try_from(blocks.div_ceil(CLUSTER)).expect("a replica is within its largest size")
}

impl Catalog {
    /// The layer that went, if one did. An error if the record does not belong here: a damaged
    /// journal, never a running pool.
    pub fn apply(&mut self, record: &Record) -> Result<Option<Layer>, Malformed> {
        match record {
            Record::Create(create) => self.create(create)?,
            Record::Delete { replica } => {
                let layer = self.replicas.remove(replica).ok_or(Malformed)?.layer;
                return self.remove(layer).map(Some);
            }
            Record::Resize { replica, blocks } => {
                let layer = self.live(*replica)?;
                if *blocks < layer.blocks || *blocks > MOST_BLOCKS {
                    return Err(Malformed);
                }
                layer.blocks = *blocks;
            }
            Record::Snapshot { replica, layer, frozen } => {
                self.freeze(*replica, *layer, frozen.clone())?;
            }
            Record::Discard { layer } => {
                self.frozen(*layer)?.discarded = true;
            }
            Record::Drop { layer } => return self.remove(*layer).map(Some),
            Record::Splice { layer } => return self.splice(*layer).map(Some),
            Record::Hole { layer, first, count, pages } => {
                let layer = self.layers.get_mut(layer).ok_or(Malformed)?;
                let end = first.checked_add(*count).ok_or(Malformed)?;
                if end > clusters(layer.blocks) {
                    return Err(Malformed);
                }
                layer.holes.insert_run(*first, *count, *pages);
            }
            Record::Note { replica, note } => {
                let regions = self.live(*replica)?.blocks.div_ceil(REGION);
                let replica = self.replicas.get_mut(replica).ok_or(Malformed)?;
                if !notes::fits(note, regions) {
                    return Err(Malformed);
                }
                replica.header.take(note);
            }
            Record::Carry { replica: None, revision, bytes } => {
                self.carried = (*revision, bytes.clone());
            }
            Record::Carry { replica: Some(replica), revision, bytes } => {
                let replica = self.replicas.get_mut(replica).ok_or(Malformed)?;
                replica.carried = (*revision, bytes.clone());
            }
            Record::Mark { mark } => self.mark = Some(*mark),
            Record::Hint { .. }
            | Record::Map { .. }
            | Record::Unmap { .. }
            | Record::Move { .. }
            | Record::Free { .. } => {}
        }
        Ok(None)
    }

    pub fn layer_of(&self, replica: ReplicaId) -> Option<&Layer> {
        self.layers.get(&self.replicas.get(&replica)?.layer)
    }

    fn live(&mut self, replica: ReplicaId) -> Result<&mut Layer, Malformed> {
        let layer = self.replicas.get(&replica).ok_or(Malformed)?.layer;
        self.layers.get_mut(&layer).ok_or(Malformed)
    }

    fn frozen(&mut self, layer: LayerId) -> Result<&mut Frozen, Malformed> {
        self.layers.get_mut(&layer).and_then(|layer| layer.frozen.as_mut()).ok_or(Malformed)
    }

    fn create(&mut self, create: &Create) -> Result<(), Malformed> {
        let Create { replica, volume, layer, parent, blocks, thin, birth, carried } = create;
        if self.replicas.contains_key(replica) || *blocks > MOST_BLOCKS {
            return Err(Malformed);
        }
        self.add_layer(*layer, Layer { parent: *parent, blocks: *blocks, ..Layer::default() })?;
        let header = Header::default();
        let (carried, birth) = (carried.clone(), *birth);
        self.replicas.insert(
            *replica,
            Replica { volume: *volume, layer: *layer, thin: *thin, birth, carried, header },
        );
        Ok(())
    }

    fn add_layer(&mut self, id: LayerId, layer: Layer) -> Result<(), Malformed> {
        if id < self.next_layer {
            return Err(Malformed);
        }
        if let Some(parent) = layer.parent {
            let parent = self.layers.get_mut(&parent).ok_or(Malformed)?;
            parent.children += 1;
        }
        self.next_layer = id.checked_add(1).ok_or(Malformed)?;
        self.layers.insert(id, layer);
        Ok(())
    }

    fn freeze(&mut self, replica: ReplicaId, id: LayerId, frozen: Frozen) -> Result<(), Malformed> {
        let parent = self.replicas.get(&replica).ok_or(Malformed)?.layer;
        let blocks = self.live(replica)?.blocks;
        if frozen.blocks > blocks {
            return Err(Malformed);
        }
        self.add_layer(id, Layer { parent: Some(parent), blocks, ..Layer::default() })?;
        self.layers.get_mut(&parent).ok_or(Malformed)?.frozen = Some(frozen);
        self.replicas.get_mut(&replica).ok_or(Malformed)?.layer = id;
        Ok(())
    }

    fn remove(&mut self, id: LayerId) -> Result<Layer, Malformed> {
        if self.layers.get(&id).ok_or(Malformed)?.children > 0 {
            return Err(Malformed);
        }
        let layer = self.layers.remove(&id).ok_or(Malformed)?;
        if let Some(parent) = layer.parent.and_then(|parent| self.layers.get_mut(&parent)) {
            parent.children -= 1;
        }
        Ok(layer)
    }

    /// The one above takes its place; what it hid stays hidden.
    fn splice(&mut self, id: LayerId) -> Result<Layer, Malformed> {
        let child = self.child(id).ok_or(Malformed)?;
        let layer = self.layers.remove(&id).ok_or(Malformed)?;
        let child = self.layers.get_mut(&child).ok_or(Malformed)?;
        child.parent = layer.parent;
        if child.parent.is_some() {
            child.holes.merge(&layer.holes);
        } else {
            child.holes = Holes::default();
        }
        Ok(layer)
    }

    /// The only layer above this one.
    pub fn child(&self, id: LayerId) -> Option<LayerId> {
        if self.layers.get(&id)?.children != 1 {
            return None;
        }
        let mut above = self.layers.iter().filter(|(_, layer)| layer.parent == Some(id));
        above.next().map(|(child, _)| *child)
    }

    /// Everything but the cluster maps, and for each page of the table that was ever written how
    /// new it is: an older one in its place would be damage.
    pub fn encode(&self, pages: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        put_u32(&mut out, self.next_layer);
        record::put_birth(&mut out, self.mark);
        put_u64(&mut out, self.carried.0.0);
        put_bytes(&mut out, &self.carried.1);
        put_count(&mut out, self.layers.len());
        for (id, layer) in &self.layers {
            put_u32(&mut out, *id);
            layer.put(&mut out);
        }
        put_count(&mut out, self.replicas.len());
        for (id, replica) in &self.replicas {
            put_uuid(&mut out, id.0);
            replica.put(&mut out);
        }
        put_numbers(&mut out, pages);
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<u64>), Malformed> {
        let mut input = Input::new(bytes);
        let mut catalog = Self {
            next_layer: input.u32()?,
            mark: record::birth(&mut input)?,
            carried: (Revision(input.u64()?), input.bytes()?.into()),
            ..Self::default()
        };
        for _ in 0..input.count(15)? {
            let id = input.u32()?;
            let is_new = id != 0 && id < catalog.next_layer;
            let layer = Layer::read(&mut input)?;
            if !is_new || catalog.layers.insert(id, layer).is_some() {
                return Err(Malformed);
            }
        }
        for _ in 0..input.count(64)? {
            let id = ReplicaId(input.uuid()?);
            let replica = Replica::read(&mut input)?;
            let is_live = catalog.layers.get(&replica.layer).is_some_and(|l| l.frozen.is_none());
            if !is_live || catalog.replicas.insert(id, replica).is_some() {
                return Err(Malformed);
            }
        }
        let pages = input.numbers()?;
        // Each live layer is one replica's.
        let owned: BTreeSet<_> = catalog.replicas.values().map(|replica| replica.layer).collect();
        let live = catalog.layers.values().filter(|layer| layer.frozen.is_none()).count();
        if owned.len() != catalog.replicas.len() || owned.len() != live {
            return Err(Malformed);
        }
        catalog.count_children()?;
        Ok((catalog, pages))
    }

    /// Parents are older than their children, so there is no circle.
    fn count_children(&mut self) -> Result<(), Malformed> {
        let is_frozen = |parent| self.layers.get(parent).is_some_and(|l| l.frozen.is_some());
        let mut all = self.layers.values().filter_map(|layer| layer.parent.as_ref());
        if !all.all(is_frozen) {
            return Err(Malformed);
        }
        let parents: Vec<_> =
            self.layers.iter().filter_map(|(id, layer)| Some((*id, layer.parent?))).collect();
        for (child, parent) in parents {
            let parent = self.layers.get_mut(&parent).filter(|_| parent < child);
            parent.ok_or(Malformed)?.children += 1;
        }
        Ok(())
    }
}

/// Beside whether it is thin: its header has the marks of flushes.
const MARKED: u8 = 2;

impl Replica {
    fn put(&self, out: &mut Vec<u8>) {
        put_uuid(out, self.volume.0);
        put_u32(out, self.layer);
        put_u8(out, u8::from(self.thin) | MARKED);
        record::put_birth(out, self.birth);
        put_u64(out, self.carried.0.0);
        put_bytes(out, &self.carried.1);
        notes::put_header(out, &self.header);
    }

    fn read(input: &mut Input) -> Result<Self, Malformed> {
        let (volume, layer) = (VolumeId(input.uuid()?), input.u32()?);
        let (thin, layout) = match input.u8()? {
            flags @ (0 | 1) => (flags == 1, Layout::Unmarked),
            flags if flags & !1 == MARKED => (flags & 1 == 1, Layout::Marked),
            _ => return Err(Malformed),
        };
        Ok(Self {
            volume,
            layer,
            thin,
            birth: record::birth(input)?,
            carried: (Revision(input.u64()?), input.bytes()?.into()),
            header: notes::header(input, layout)?,
        })
    }
}

impl Layer {
    fn put(&self, out: &mut Vec<u8>) {
        put_u32(out, self.parent.unwrap_or(0));
        put_u64(out, self.blocks);
        put_u8(out, self.frozen.is_some().into());
        if let Some(frozen) = &self.frozen {
            frozen.put(out);
        }
        self.holes.put(out);
    }

    fn read(input: &mut Input) -> Result<Self, Malformed> {
        let parent = Some(input.u32()?).filter(|parent| *parent != 0);
        let blocks = Some(input.u64()?).filter(|blocks| *blocks <= MOST_BLOCKS).ok_or(Malformed)?;
        let frozen = if input.bool()? { Some(Frozen::read(input)?) } else { None };
        if frozen.as_ref().is_some_and(|frozen| frozen.blocks > blocks) {
            return Err(Malformed);
        }
        let holes = Holes::read(input, clusters(blocks))?;
        Ok(Self { parent, blocks, frozen, holes, ..Self::default() })
    }
}

/// Blocks that so many bytes of catalog take.
pub(crate) fn area_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(u64::try_from(ROOM).expect("a small constant"))
}

pub(crate) fn put_area(pool: PoolId, lsn: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut payload = Vec::with_capacity(PAYLOAD);
    for (at, part) in (0u64..).zip(bytes.chunks(ROOM)) {
        payload.clear();
        put_u64(&mut payload, at);
        payload.extend_from_slice(part);
        frame::put_frame(&mut out, MAGIC, pool, lsn, &payload);
    }
    out
}

/// The part of the catalog in block `at` of its area.
pub(crate) fn read_area(bytes: &[u8], pool: PoolId, lsn: u64, at: u64) -> Result<&[u8], Malformed> {
    let framed = frame::unframe(bytes, MAGIC)?;
    let mut input = framed.payload;
    if framed.pool != pool || framed.lsn != lsn || input.u64()? != at {
        return Err(Malformed);
    }
    input.take(index(ROOM as u64))
}
