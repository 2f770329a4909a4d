//! A pool with a rule left out is caught by the same checks that the whole one passes.

use alloc::vec::Vec;
use std::panic::{self, AssertUnwindSafe};

use block::Extent;

use super::{
    crashes::{SCRIPTS, everywhere, world},
    model::{Play, Step},
    world::{SMALL, World},
};
use crate::{Flaw, Flaws};

/// Whether a crash somewhere in the script shows that something is wrong.
fn is_caught(script: &[Step], fresh: &Play) -> bool {
    (0..4).any(|seed| {
        panic::catch_unwind(AssertUnwindSafe(|| everywhere(script, fresh, seed))).is_err()
    })
}

fn script(name: &str) -> &'static [Step] {
    SCRIPTS.iter().find(|(other, _)| *other == name).expect("there is such a script").1
}

#[test]
fn a_flush_that_skips_the_journal_is_caught() {
    let flawed = world(1, Flaws::with(Flaw::FlushSkipsJournal));
    assert!(is_caught(script("zero"), &flawed) || is_caught(script("write and flush"), &flawed));
}

#[test]
fn a_cluster_that_is_used_again_too_early_is_caught() {
    let flawed = world(1, Flaws::with(Flaw::ReuseTooEarly));
    assert!(is_caught(script("zero and reuse"), &flawed));
}

#[test]
fn a_mapping_that_is_durable_before_its_data_is_caught() {
    let flawed = world(1, Flaws::with(Flaw::MapBeforeData));
    assert!(is_caught(script("write and flush"), &flawed));
}

/// So many clusters that their entries lie in several sectors of a page of the table.
fn wide_table(flaws: Flaws) -> (Vec<Step>, Play) {
    let mut play = Play::new(World::flawed(2048 + 512, SMALL, 1, flaws));
    play.step(Step::Create(1, 2000)).expect("no cut");
    for cluster in 0..24 {
        play.step(Step::Write(1, Extent::new(cluster * 64, 1))).expect("no cut");
    }
    play.run(&[Step::Checkpoint, Step::Settle]).expect("no cut");
    for cluster in 0..24 {
        play.step(Step::Write(1, Extent::new(cluster * 64 + 1, 1))).expect("no cut");
    }
    play.world.ios = 0;
    let script = alloc::vec![Step::Checkpoint, Step::Write(1, Extent::new(2, 1)), Step::Checkpoint];
    (script, play)
}

#[test]
fn a_torn_page_of_the_table_is_replaced_by_its_other_slot() {
    let (script, play) = wide_table(Flaws::default());
    everywhere(&script, &play, 1);
}

#[test]
fn a_torn_page_of_the_table_that_is_trusted_is_caught() {
    let (script, play) = wide_table(Flaws::with(Flaw::TornPageTrusted));
    assert!(is_caught(&script, &play));
}
