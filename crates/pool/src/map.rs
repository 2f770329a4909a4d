//! From a layer's clusters to those on the disk, and which of its pages nothing shines through.
//!
//! Both are tables of two levels: a lookup is two steps whatever the size, and a sparse volume of
//! a terabyte costs a few kilobytes.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    codec::{Input, Malformed, index, put_u32, put_u64},
    record::Cluster,
};

const FAN: usize = 1024;
const FAN_32: u32 = 1024;

fn place(logical: u32) -> (usize, usize) {
    let at = index(logical.into());
    (at / FAN, at % FAN)
}

/// Whether a run that began at `first` and has come to `at` has come to the end of a leaf.
fn ends(first: u32, at: u32) -> bool {
    at > first && at.is_multiple_of(FAN_32)
}

/// Means no cluster.
const NONE: Cluster = Cluster::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    leaves: Vec<Option<Box<[Cluster; FAN]>>>,
    count: u32,
}

impl Map {
    pub fn get(&self, logical: u32) -> Option<Cluster> {
        let (leaf, at) = place(logical);
        let cluster = self.leaves.get(leaf)?.as_ref()?[at];
        (cluster != NONE).then_some(cluster)
    }

    /// How many clusters there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The one that was there before.
    pub fn insert(&mut self, logical: u32, cluster: Cluster) -> Option<Cluster> {
        let (leaf, at) = place(logical);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = self.leaves[leaf].get_or_insert_with(|| Box::new([NONE; FAN]));
        let before = core::mem::replace(&mut leaf[at], cluster);
        if before == NONE {
            self.count += 1;
            return None;
        }
        Some(before)
    }

    pub fn remove(&mut self, logical: u32) -> Option<Cluster> {
        let (leaf, at) = place(logical);
        let slot = &mut self.leaves.get_mut(leaf)?.as_mut()?[at];
        let before = core::mem::replace(slot, NONE);
        (before != NONE).then(|| {
            self.count -= 1;
            before
        })
    }

    /// The first from `logical` on, and where it lies.
    pub fn next(&self, logical: u32) -> Option<(u32, Cluster)> {
        let (mut leaf, mut at) = place(logical);
        while leaf < self.leaves.len() {
            let found = self.leaves[leaf].as_ref().and_then(|clusters| {
                (at..FAN).find(|at| clusters[*at] != NONE).map(|at| (at, clusters[at]))
            });
            if let Some((at, cluster)) = found {
                let logical = u32::try_from(leaf * FAN + at).expect("it was put in with 32 bits");
                return Some((logical, cluster));
            }
            (leaf, at) = (leaf + 1, 0);
        }
        None
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, Cluster)> + '_ {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let (logical, cluster) = self.next(from?)?;
            from = logical.checked_add(1);
            Some((logical, cluster))
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Leaf {
    #[default]
    None,
    All,
    Some(Box<[u64; FAN]>),
}

/// Pages that read as zeros whatever lies below. A page of the layer's own data hides its hole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holes {
    leaves: Vec<Leaf>,
}

impl Holes {
    pub fn get(&self, logical: u32) -> u64 {
        let (leaf, at) = place(logical);
        match self.leaves.get(leaf) {
            None | Some(Leaf::None) => 0,
            Some(Leaf::All) => u64::MAX,
            Some(Leaf::Some(masks)) => masks[at],
        }
    }

    pub fn insert(&mut self, logical: u32, pages: u64) {
        let (leaf, at) = place(logical);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, Leaf::default);
        }
        let leaf = &mut self.leaves[leaf];
        if matches!(leaf, Leaf::None) {
            *leaf = Leaf::Some(Box::new([0; FAN]));
        }
        if let Leaf::Some(masks) = leaf {
            masks[at] |= pages;
            if masks[at] == u64::MAX && masks.iter().all(|mask| *mask == u64::MAX) {
                *leaf = Leaf::All;
            }
        }
    }

    /// Runs of clusters with the same pages: first, count, pages.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let end = u32::try_from(self.leaves.len() * FAN).expect("it was put in with 32 bits");
        let mut at = 0;
        core::iter::from_fn(move || {
            while at < end && self.get(at) == 0 {
                at += self.stride(at);
            }
            let (first, pages) = (at, if at < end { self.get(at) } else { return None });
            // A run of partly open clusters ends with its leaf, so that reading it back never takes
            // more memory than a leaf.
            while at < end && self.get(at) == pages && (pages == u64::MAX || !ends(first, at)) {
                at += self.stride(at);
            }
            Some((first, at - first, pages))
        })
    }

    /// How many clusters from here on are alike without looking: whole leaves.
    fn stride(&self, logical: u32) -> u32 {
        let (leaf, at) = place(logical);
        let is_whole = at == 0 && !matches!(self.leaves.get(leaf), Some(Leaf::Some(_)));
        if is_whole { FAN_32 } else { 1 }
    }

    pub fn merge(&mut self, other: &Self) {
        for (first, count, pages) in other.runs() {
            self.insert_run(first, count, pages);
        }
    }

    /// The same pages of `count` clusters.
    pub fn insert_run(&mut self, first: u32, count: u32, pages: u64) {
        let end = first + count;
        let mut logical = first;
        while logical < end {
            let (leaf, at) = place(logical);
            let is_whole = at == 0 && pages == u64::MAX && index((end - logical).into()) >= FAN;
            if is_whole {
                if leaf >= self.leaves.len() {
                    self.leaves.resize_with(leaf + 1, Leaf::default);
                }
                self.leaves[leaf] = Leaf::All;
                logical += FAN_32;
            } else {
                self.insert(logical, pages);
                logical += 1;
            }
        }
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        let runs: Vec<_> = self.runs().collect();
        crate::codec::put_count(out, runs.len());
        for (first, count, pages) in runs {
            put_u32(out, first);
            put_u32(out, count);
            put_u64(out, pages);
        }
    }

    /// Of a layer with `clusters` clusters.
    pub fn read(input: &mut Input, clusters: u32) -> Result<Self, Malformed> {
        let mut holes = Self::default();
        for _ in 0..input.count(16)? {
            let (first, count, pages) = (input.u32()?, input.u32()?, input.u64()?);
            let is_run = pages == u64::MAX || count <= FAN_32;
            let end = first.checked_add(count).filter(|end| *end <= clusters && is_run);
            end.ok_or(Malformed)?;
            holes.insert_run(first, count, pages);
        }
        Ok(holes)
    }
}
