//! Where the pages of an extent lie: the nearest layer that has them, or nowhere.

use alloc::vec::Vec;

use block::Extent;

use super::{Pool, mask, runs, slice_at, slices};
use crate::{
    PageState,
    catalog::Layer,
    record::{Cluster, LayerId},
};

/// Pages of an extent that lie side by side on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// In blocks from the extent's start.
    pub at: u32,
    pub blocks: u32,
    pub cluster: Cluster,
    pub page: u8,
}

impl Piece {
    /// Whether `next` lies right behind it, in the extent and on the disk.
    pub fn meets(&self, next: &Self) -> bool {
        let pages = |piece: &Self| u64::from(piece.cluster) * 64 + u64::from(piece.page);
        self.at + self.blocks == next.at && pages(self) + u64::from(self.blocks) == pages(next)
    }

    /// How many clusters it touches.
    pub fn clusters(&self) -> u32 {
        (u32::from(self.page) + self.blocks).div_ceil(64)
    }
}

pub(super) fn join(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        Some(last) if last.meets(&piece) => last.blocks += piece.blocks,
        _ => pieces.push(piece),
    }
}

impl Pool {
    /// Where the extent lies, if that is one piece of the layer's own: what most I/O is.
    pub(super) fn single(&self, layer: &Layer, extent: Extent) -> Option<Piece> {
        let slice = slice_at(extent, extent.start);
        if u32::from(slice.count) != extent.blocks {
            return None;
        }
        let cluster = layer.map.get(slice.logical)?;
        let pages = slice.pages();
        let is_whole = self.clusters.cell(cluster).entry.valid & pages == pages;
        is_whole.then(|| slice.piece(cluster))
    }

    /// The pieces that hold data, in order; the rest reads as zeros.
    pub(super) fn pieces(&self, layer: LayerId, extent: Extent) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for slice in slices(extent) {
            let mut found = Vec::new();
            self.trace(layer, slice.logical, slice.pages(), |cluster, pages, _| {
                found.extend(runs(pages).map(|(page, count)| Piece {
                    at: slice.at + u32::from(page - slice.first),
                    blocks: count.into(),
                    cluster,
                    page,
                }));
            });
            // A single layer finds them in order; several may interleave.
            found.sort_unstable_by_key(|piece| piece.at);
            for piece in found {
                join(&mut pieces, piece);
            }
        }
        pieces
    }

    /// Goes down the layers until each of the pages was found or hidden. The last argument of
    /// `found` is how deep.
    pub(super) fn trace(
        &self,
        layer: LayerId,
        logical: u32,
        mut pages: u64,
        mut found: impl FnMut(Cluster, u64, u32),
    ) {
        let mut at = Some(layer);
        let mut depth = 0;
        while let Some(layer) = at.and_then(|layer| self.catalog.layers.get(&layer)) {
            if let Some(cluster) = layer.map.get(logical) {
                let valid = self.clusters.cell(cluster).entry.valid & pages;
                if valid != 0 {
                    found(cluster, valid, depth);
                    pages &= !valid;
                }
            }
            if pages == 0 {
                return;
            }
            at = layer.parent;
            if at.is_some() {
                pages &= !layer.holes.get(logical);
            }
            depth += 1;
        }
    }

    /// Whether a layer below has anything there that could shine through.
    pub(super) fn shines(&self, layer: LayerId, logical: u32) -> bool {
        let mut any = false;
        let parent = self.catalog.layers.get(&layer).and_then(|layer| layer.parent);
        if let Some(parent) = parent {
            self.trace(parent, logical, u64::MAX, |_, _, _| any = true);
        }
        any
    }

    /// What each run of pages of an extent reads as.
    pub(super) fn states(&self, layer: LayerId, extent: Extent) -> Vec<(Extent, PageState)> {
        let mut states: Vec<(Extent, PageState)> = Vec::new();
        for slice in slices(extent) {
            let (mut own, mut inherited) = (0, 0);
            self.trace(layer, slice.logical, slice.pages(), |_, pages, depth| match depth {
                0 => own |= pages,
                _ => inherited |= pages,
            });
            for page in slice.first..slice.first + slice.count {
                let bit = mask(page, 1);
                let state = match (own & bit != 0, inherited & bit != 0) {
                    (true, _) => PageState::Own,
                    (false, true) => PageState::Inherited,
                    (false, false) => PageState::Hole,
                };
                let at = extent.start + u64::from(slice.at) + u64::from(page - slice.first);
                match states.last_mut() {
                    Some((run, last)) if *last == state => run.blocks += 1,
                    _ => states.push((Extent::new(at, 1), state)),
                }
            }
        }
        states
    }

    pub(super) fn is_below(&self, base: LayerId, layer: LayerId) -> bool {
        let parent = |id: &LayerId| self.catalog.layers.get(id).and_then(|layer| layer.parent);
        core::iter::successors(parent(&layer), parent).any(|below| below == base)
    }

    /// Runs of pages that a layer above `base` has or hides, and whether there is data.
    pub(super) fn changed(
        &self,
        layer: LayerId,
        base: Option<LayerId>,
        extent: Extent,
    ) -> Vec<(Extent, bool)> {
        let mut changed: Vec<(Extent, bool)> = Vec::new();
        for slice in slices(extent) {
            let same = base.map_or(0, |base| self.unchanged(layer, base, slice.logical));
            let mut data = 0;
            self.trace(layer, slice.logical, slice.pages(), |_, pages, _| data |= pages);
            for page in slice.first..slice.first + slice.count {
                let bit = mask(page, 1);
                if same & bit != 0 {
                    continue;
                }
                let at = extent.start + u64::from(slice.at) + u64::from(page - slice.first);
                let has_data = data & bit != 0;
                match changed.last_mut() {
                    Some((run, known)) if *known == has_data && run.end() == at => run.blocks += 1,
                    _ => changed.push((Extent::new(at, 1), has_data)),
                }
            }
        }
        changed
    }

    /// Pages that no layer above `base` has or hides.
    fn unchanged(&self, layer: LayerId, base: LayerId, logical: u32) -> u64 {
        let mut same = u64::MAX;
        let mut at = Some(layer).filter(|layer| *layer != base);
        while let Some(layer) = at.and_then(|id| self.catalog.layers.get(&id)) {
            if let Some(cluster) = layer.map.get(logical) {
                same &= !self.clusters.cell(cluster).entry.valid;
            }
            same &= !layer.holes.get(logical);
            at = layer.parent.filter(|parent| *parent != base);
        }
        same
    }
}
