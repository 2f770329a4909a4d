//! With digests on, a bit that flips on the wire never becomes somebody's data.

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use nvme::{Digests, Op, Reply};
use proptest::prelude::*;

use crate::rig::{Rig, volume};

/// Writes and reads with one bit flipped on the way; gives whether the session outlived it.
fn survives(goes_up: bool, at: usize, mask: u8, seed: u64) -> bool {
    let mut rig = Rig::live(volume(), Digests::BOTH, seed);
    let extents = [Extent::new(0, 1), Extent::new(10, 8), Extent::new(30, 2)];
    let data = |extent: &Extent, salt: u8| {
        let bytes = vec![salt | 1; usize::try_from(extent.bytes()).unwrap()];
        Buffer::copy_of(&bytes)
    };
    for extent in &extents {
        rig.run(Op::Write { extent: *extent, data: data(extent, 1), durability: Volatile })
            .unwrap();
    }
    rig.flip = Some((goes_up, rig.passed[usize::from(!goes_up)] + at, mask));
    for (tag, extent) in (0u64..).zip(&extents) {
        rig.submit(tag, Op::Write { extent: *extent, data: data(extent, 6), durability: Volatile });
        rig.submit(10 + tag, Op::Read { extent: Extent::new(500, 3) });
    }
    rig.settle();
    // Whole old or whole new, and new if it was said to be done.
    for (tag, extent) in (0u64..).zip(&extents) {
        let start = usize::try_from(extent.offset()).unwrap();
        let there = &rig.disk.bytes[start..start + usize::try_from(extent.bytes()).unwrap()];
        let is_new = there == data(extent, 6).bytes();
        assert!(is_new || there == data(extent, 1).bytes(), "a block is neither old nor new");
        let answer = rig.done.get(&tag).expect("every operation ends");
        assert!(is_new || answer.is_err(), "done, but not there");
        match rig.done.get(&(10 + tag)).expect("every operation ends") {
            Ok(Reply::Data(data)) => assert!(data.is_zero() && data.len() == 3 * BLOCK),
            Ok(Reply::Done) => panic!("a read without data"),
            Err(_) => {}
        }
    }
    rig.flip.is_none() && rig.session.is_live()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is(
        goes_up in any::<bool>(), at in 0usize..60_000, bit in 0u8..8, seed in any::<u64>(),
    ) {
        survives(goes_up, at, 1 << bit, seed);
    }
}

#[test]
fn a_flipped_bit_of_data_fails_one_command_and_not_the_session() {
    let mut rig = Rig::live(volume(), Digests::BOTH, 3);
    let (extent, data) = (Extent::new(0, 1), Buffer::copy_of(&[5; BLOCK]));
    // Past the header of 72 bytes and its digest lies the data.
    rig.flip = Some((true, rig.passed[0] + 76 + 100, 4));
    let status =
        rig.run(Op::Write { extent, data: data.clone(), durability: Volatile }).unwrap_err();
    assert_eq!((status.code, status.is_final), (nvme::Code::TransientTransport, false));
    assert_eq!(
        rig.run(Op::Write { extent, data: data.clone(), durability: Volatile }),
        Ok(Reply::Done)
    );
    rig.flip = Some((false, rig.passed[1] + 28 + 9, 4));
    let status = rig.run(Op::Read { extent }).unwrap_err();
    assert_eq!(status.code, nvme::Code::TransientTransport);
    assert_eq!(rig.run(Op::Read { extent }), Ok(Reply::Data(data)));
}

#[test]
fn a_flipped_bit_of_a_header_ends_the_connection() {
    for (goes_up, at) in [(true, 0), (true, 4), (true, 40), (false, 0), (false, 9), (false, 25)] {
        let mut rig = Rig::live(volume(), Digests::BOTH, 3);
        rig.flip = Some((goes_up, rig.passed[usize::from(!goes_up)] + at, 1));
        assert!(rig.run(Op::Read { extent: Extent::new(0, 1) }).is_err());
        assert!(rig.dead.is_some(), "{goes_up} {at}");
        assert_eq!(rig.closed, rig.opened);
    }
}
