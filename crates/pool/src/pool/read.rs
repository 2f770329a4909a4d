//! Reading: one I/O where the pages lie side by side, zeros where there are none.

use alloc::{boxed::Box, vec::Vec};

use block::{BLOCK, Buffer, Extent};
use model::SnapshotId;

use super::{
    Access, Op, OpId, Pool, Scope, Whom, Work, bytes, clusters_of, new_op, resolve::Piece,
};
use crate::{
    Error, FetchedPiece, Image, Io, IoError, Reply, RequestId, codec::index, record::LayerId,
};

#[derive(Clone, Debug)]
pub(super) struct Read {
    image: Image,
    extent: Extent,
    answer: ReadAs,
    /// None if there is only one, of the whole extent.
    pieces: Vec<Piece>,
    left: usize,
    /// The only piece, or all of them put together.
    data: Option<Buffer>,
    failed: Option<IoError>,
}

/// How what was read is answered.
#[derive(Clone, Debug)]
pub(super) enum ReadAs {
    Data,
    Hashes,
    /// Cut into these, which have data or not.
    Pieces(Box<[(Extent, bool)]>),
}

/// What a device answers that says it read but gives too little.
const SHORT: IoError = IoError { code: 5 };

impl Pool {
    pub(super) fn admit_read(
        &mut self,
        request: RequestId,
        image: Image,
        extent: Extent,
        answer: ReadAs,
    ) -> Result<(), Error> {
        let layer = self.find(image)?;
        self.check_image(image, layer, extent)?;
        let scope = match image {
            Image::Replica(replica) => {
                Some(Scope { replica, clusters: clusters_of(extent), access: Access::Read })
            }
            Image::Snapshot(..) => None,
        };
        // What most reads are: nothing is in its way, and its pages lie in one piece.
        let is_free = self.gates.is_empty();
        if let (true, ReadAs::Data, Some(scope)) = (is_free, &answer, &scope)
            && let Some(piece) = self.own_piece(layer, extent)
        {
            let (op, len) = (self.start_single(request, scope.clone()), index(extent.bytes()));
            self.issue_read(Whom::SingleRead { op, len }, piece);
            return Ok(());
        }
        let pieces = Vec::new();
        let read = Read { image, extent, answer, pieces, left: 0, data: None, failed: None };
        let op = new_op(Some(request), scope, Work::Read(Box::new(read)));
        if is_free {
            // Nothing is in its way.
            let op = self.ops.insert(Op { is_running: true, ..op });
            self.read_from(op, layer, extent);
        } else {
            self.enter(op);
        }
        Ok(())
    }

    pub(super) fn admit_fetch(
        &mut self,
        request: RequestId,
        image: Image,
        since: Option<SnapshotId>,
        extent: Extent,
    ) -> Result<(), Error> {
        let runs = self.changes(image, since, extent)?;
        if runs.iter().any(|(_, has_data)| *has_data) {
            return self.admit_read(request, image, extent, ReadAs::Pieces(runs.into()));
        }
        let hole = |(extent, _)| FetchedPiece { extent, data: None };
        self.answer(request, Ok(Reply::Pieces(runs.into_iter().map(hole).collect())));
        Ok(())
    }

    pub(super) fn run_read(&mut self, op: OpId) {
        let Some(Work::Read(read)) = self.ops.get(op).map(|op| &op.work) else { return };
        let (image, extent) = (read.image, read.extent);
        let layer = match self.find(image) {
            Ok(layer) => layer,
            Err(error) => return self.finish(op, Err(error)),
        };
        self.read_from(op, layer, extent);
    }

    fn read_from(&mut self, op: OpId, layer: LayerId, extent: Extent) {
        if let Some(piece) = self.own_piece(layer, extent) {
            if let Some(Work::Read(read)) = self.ops.get_mut(op).map(|op| &mut op.work) {
                read.left = 1;
            }
            return self.issue_read(Whom::Read { op, at: 0 }, piece);
        }
        let pieces = self.pieces(layer, extent);
        if pieces.is_empty() {
            return self.finish_read(op);
        }
        for (at, piece) in pieces.iter().enumerate() {
            self.issue_read(Whom::Read { op, at }, *piece);
        }
        if let Some(Work::Read(read)) = self.ops.get_mut(op).map(|op| &mut op.work) {
            read.left = pieces.len();
            read.pieces = pieces;
        }
    }

    /// All of the extent, if it lies in one piece of the layer itself.
    fn own_piece(&self, layer: LayerId, extent: Extent) -> Option<Piece> {
        self.single(self.catalog.layers.get(&layer)?, extent)
    }

    fn issue_read(&mut self, whom: Whom, piece: Piece) {
        let offset = bytes(self.geometry.page(piece.cluster, piece.page));
        let io = Io::Read { offset, len: index(bytes(piece.blocks.into())) };
        self.io_on(io, whom, piece.cluster, piece.clusters());
    }

    pub(super) fn single_read_done(
        &mut self,
        op: OpId,
        len: usize,
        result: Result<Option<Buffer>, IoError>,
    ) {
        let data = result.and_then(|data| data.ok_or(SHORT)).inspect(|data| {
            self.buffers.lend(data);
        });
        let whole = data.and_then(|data| if data.len() == len { Ok(data) } else { Err(SHORT) });
        self.finish(op, whole.map(Reply::Data).map_err(Error::Io));
    }

    pub(super) fn read_done(
        &mut self,
        op: OpId,
        at: usize,
        result: Result<Option<Buffer>, IoError>,
    ) {
        let Some(Work::Read(read)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        match result.and_then(|data| data.ok_or(SHORT)) {
            Ok(data) => {
                self.buffers.lend(&data);
                read.put(at, data);
            }
            Err(error) => read.failed = Some(error),
        }
        read.left -= 1;
        if read.left == 0 {
            self.finish_read(op);
        }
    }

    fn finish_read(&mut self, op: OpId) {
        let Some(Work::Read(read)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        let result = if let Some(error) = read.failed {
            Err(Error::Io(error))
        } else {
            let len = index(read.extent.bytes());
            let data = read.data.take().unwrap_or_else(|| Buffer::zeroed(len));
            Ok(match &read.answer {
                ReadAs::Data => Reply::Data(data),
                ReadAs::Hashes => Reply::Hashes(hashes(&data)),
                ReadAs::Pieces(runs) => Reply::Pieces(FetchedPiece::cut(&data, read.extent, runs)),
            })
        };
        self.finish(op, result);
    }
}

impl Read {
    fn put(&mut self, at: usize, data: Buffer) {
        let Some(piece) = self.pieces.get(at).copied() else {
            // All of it was one.
            if data.len() == index(self.extent.bytes()) {
                self.data = Some(data);
            } else {
                self.failed = Some(SHORT);
            }
            return;
        };
        let len = index(bytes(piece.blocks.into()));
        if data.len() != len {
            self.failed = Some(SHORT);
        } else if piece.blocks == self.extent.blocks {
            self.data = Some(data);
        } else {
            let whole = index(self.extent.bytes());
            let all = self.data.get_or_insert_with(|| Buffer::zeroed(whole));
            let start = index(bytes(piece.at.into()));
            let to = all.get_mut().expect("nobody else has seen it");
            to[start..start + len].copy_from_slice(data.bytes());
        }
    }
}

/// One per block, to compare replicas without moving their data. Not against an adversary.
fn hashes(data: &Buffer) -> Vec<u64> {
    data.bytes().chunks_exact(BLOCK).map(hash).collect()
}

fn hash(block: &[u8]) -> u64 {
    // Odd constants from the fractions of the golden ratio and of the square root of three.
    let (words, _) = block.as_chunks::<8>();
    let mixed = words.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |hash, word| {
        (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0xbb67_ae85_84ca_a73b).rotate_left(29)
    });
    (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
