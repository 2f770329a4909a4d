//! Random mixes of operations against a file in memory.

use std::collections::BTreeMap;

use block::{BLOCK, Buffer, Durability};
use proptest::prelude::*;
use uring::{Backend, Data, Op, Outcome};

use crate::{
    Rig,
    disks::{Scratch, scratch},
};

const BLOCKS: usize = 64;

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: usize,
        pieces: Vec<(u8, usize)>,
        durability: Durability,
    },
    Read {
        at: usize,
        blocks: usize,
    },
    Discard {
        at: usize,
        blocks: usize,
    },
    Sync,
    /// Waits for whatever is under way.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..BLOCKS;
    let pieces = prop::collection::vec((1u8.., 1usize..4), 1..5);
    prop_oneof![
        4 => (at.clone(), pieces, any::<bool>()).prop_map(|(at, pieces, is_durable)| {
            let durability = Durability::from_fua(is_durable);
            Step::Write { at, pieces, durability }
        }),
        4 => (at.clone(), 1usize..12).prop_map(|(at, blocks)| Step::Read { at, blocks }),
        1 => (at, 1usize..12).prop_map(|(at, blocks)| Step::Discard { at, blocks }),
        1 => Just(Step::Sync),
        1 => Just(Step::Settle),
    ]
}

/// What every block holds, and what is under way where.
struct Model<'a> {
    rig: &'a mut Rig,
    disk: uring::Disk,
    blocks: [u8; BLOCKS],
    busy: [bool; BLOCKS],
    /// What a read under way must find.
    expected: BTreeMap<u64, Vec<u8>>,
    under_way: usize,
    token: u64,
}

impl Model<'_> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Write { at, pieces, durability } => {
                let len = pieces.iter().map(|(_, blocks)| blocks).sum();
                let Some(offset) = self.claim(at, len) else { return };
                let bytes: Vec<u8> =
                    pieces.iter().flat_map(|(byte, blocks)| vec![*byte; *blocks]).collect();
                self.blocks[at..at + len].copy_from_slice(&bytes);
                let piece =
                    |(byte, blocks): &(u8, usize)| Buffer::copy_of(&vec![*byte; *blocks * BLOCK]);
                let data = Data::Many(pieces.iter().map(piece).collect());
                self.submit(Op::Write { disk: self.disk.clone(), offset, data, durability });
            }
            Step::Read { at, blocks } => {
                let Some(offset) = self.claim(at, blocks) else { return };
                self.expected.insert(self.token, self.blocks[at..at + blocks].to_vec());
                let buffer = Buffer::zeroed(blocks * BLOCK);
                self.submit(Op::Read { disk: self.disk.clone(), offset, buffer });
            }
            Step::Discard { at, blocks } => {
                let Some(offset) = self.claim(at, blocks) else { return };
                self.blocks[at..at + blocks].fill(0);
                let len = u64::try_from(blocks * BLOCK).unwrap();
                self.submit(Op::Discard { disk: self.disk.clone(), offset, len });
            }
            Step::Sync => self.submit(Op::Sync { disk: self.disk.clone() }),
            Step::Settle => self.settle(),
        }
    }

    /// The offset, if the blocks exist and nothing is under way on them.
    fn claim(&mut self, at: usize, blocks: usize) -> Option<u64> {
        let range = self.busy.get_mut(at..at + blocks)?;
        if range.contains(&true) {
            return None;
        }
        range.fill(true);
        u64::try_from(at * BLOCK).ok()
    }

    fn submit(&mut self, op: Op) {
        self.rig.reactor.submit(self.token, op);
        self.token += 1;
        self.under_way += 1;
    }

    fn settle(&mut self) {
        let count = std::mem::take(&mut self.under_way);
        for completion in self.rig.outcomes(count) {
            match completion.outcome {
                Outcome::Read { buffer, result } => {
                    result.unwrap();
                    let expected = self.expected.remove(&completion.token).unwrap();
                    let is_right = |(found, byte): (&[u8], &u8)| found.iter().all(|b| b == byte);
                    assert!(buffer.bytes().chunks(BLOCK).zip(&expected).all(is_right));
                }
                Outcome::Written { result, .. }
                | Outcome::Synced(result)
                | Outcome::Discarded(result) => result.unwrap(),
                other => panic!("{other:?}"),
            }
        }
        self.busy.fill(false);
    }
}

fn check(backend: Backend, steps: &[Step]) {
    let Scratch { disk, folder: _folder } = scratch(BLOCKS);
    let mut rig = Rig::new(backend);
    let mut model = Model {
        rig: &mut rig,
        disk,
        blocks: [0; BLOCKS],
        busy: [false; BLOCKS],
        expected: BTreeMap::new(),
        under_way: 0,
        token: 0,
    };
    for step in steps {
        model.step(step.clone());
    }
    model.settle();
    model.step(Step::Read { at: 0, blocks: BLOCKS });
    model.settle();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_mix_of_operations_leaves_what_a_plain_array_would_hold(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        check(Backend::Uring, &steps);
        check(Backend::Threads, &steps);
    }
}
