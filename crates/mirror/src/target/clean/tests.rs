//! How soon regions that rest are called clean.

use alloc::vec::Vec;

use block::{Durability::Volatile, Extent};

use super::super::rig::{World, founded, serving};
use crate::{Command, Input, Times};

const REGIONS: u64 = 200;
/// Blocks of 4 KiB in a region of 4 MiB.
const REGION: u64 = 1_024;

fn write(world: &mut World, region: u64) {
    let command =
        Command::Write { extent: Extent::new(region * REGION, 1), data: (), durability: Volatile };
    world.tell(Input::Command { session: 10, tag: region, command });
}

/// A crash after a large write copies what was written last, not all of it.
#[test]
fn one_look_calls_every_region_clean_that_rests() {
    let mut world = serving(founded(), true);
    for region in 0..REGIONS {
        write(&mut world, region);
    }
    world.tell(Input::Command { session: 10, tag: REGIONS, command: Command::Flush });
    world.later(Times::default().idle);
    assert_eq!(world.cleaned.concat(), [0; 0], "they were written since the look before");
    write(&mut world, 7);
    world.later(Times::default().idle);
    let expected: Vec<u64> = (0..REGIONS).filter(|region| *region != 7).collect();
    assert_eq!(world.cleaned.concat(), expected);
    assert!(world.cleaned.iter().all(|list| list.len() <= super::REGIONS_MAX));
}
