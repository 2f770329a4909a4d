//! Bits that flip on the disk are noticed, or another copy serves.

use block::{BLOCK, Extent};

use super::{
    model::{Play, Step},
    world::{SMALL, World, format, fsck, import, options},
};
use crate::{Carries, Crash, Flaws, FormatError, SimDisk, probe};

/// A pool with something in every part of it: checkpoints, and a journal on top of them.
pub fn lived_in() -> Play {
    let mut play = Play::new(World::new(1024, SMALL, 3));
    let steps = [
        Step::Create(1, 300),
        Step::Write(1, Extent::new(0, 100)),
        Step::Snap(5, 1),
        Step::Write(1, Extent::new(50, 20)),
        Step::Checkpoint,
        Step::Note(1, 3),
        Step::Write(1, Extent::new(120, 20)),
        Step::Checkpoint,
        Step::Write(1, Extent::new(200, 20)),
        Step::Zero(1, Extent::new(10, 5)),
        Step::Flush,
        Step::Note(1, 4),
        Step::Settle,
    ];
    play.run(&steps).expect("no cut");
    play
}

/// The newest batch cannot be told from one that was never finished; it is not looked at here.
fn newest_batch(play: &Play) -> Option<usize> {
    let journal = play.world.pool.geometry().journal;
    let blocks = journal.start..journal.start + journal.blocks;
    let lsn = |block: u64| {
        let at = usize::try_from(block).unwrap() * BLOCK;
        let bytes = &play.world.disk.bytes()[at..at + BLOCK];
        bytes
            .starts_with(b"HoldfPJB")
            .then(|| u64::from_le_bytes(bytes[32..40].try_into().unwrap()))
    };
    blocks
        .filter_map(|block| Some((lsn(block)?, block)))
        .max()
        .map(|(_, block)| usize::try_from(block).unwrap() * BLOCK)
}

#[test]
fn a_flipped_bit_in_any_block_of_metadata_is_noticed_or_does_no_harm() {
    let mut play = lived_in();
    play.world.disk.crash(Crash::Process);
    let newest = newest_batch(&play).expect("there is a journal");
    let end = usize::try_from(play.world.pool.geometry().data).unwrap() * BLOCK;
    let mut noticed = 0;
    for at in (0..end).step_by(BLOCK).filter(|at| *at != newest) {
        for offset in [0, 9, 20, 36, 41, 100, 300, 4090] {
            let mut hurt = play.clone();
            hurt.world.disk.damage(at + offset, 1 << (offset % 8));
            if fsck(&mut hurt.world.disk).is_err() {
                noticed += 1;
                let options = options(&hurt.world.disk, 1, false, Flaws::default());
                let opened = import(&mut hurt.world.disk, options, &mut 0, u64::MAX);
                assert!(opened.expect("no cut").is_err(), "what fsck refuses is not opened");
            } else {
                hurt.crash(Crash::Process);
            }
        }
    }
    assert!(noticed > 0, "some blocks have no second copy");
}

/// The newest one lies at both ends. Where both are lost an older one must not serve if anything
/// was done since.
#[test]
fn lost_superblocks_are_replaced_by_others_or_noticed() {
    let played = lived_in();
    let mut imported = played.clone();
    imported.crash(Crash::Process);
    imported.run(&[Step::Write(1, Extent::new(250, 9)), Step::Flush]).expect("no cut");
    for play in [played, imported] {
        let last = usize::try_from(play.world.disk.blocks()).unwrap();
        for lost in 0..16_u32 {
            let mut hurt = play.clone();
            hurt.world.disk.crash(Crash::Process);
            for (bit, place) in [0, 1, last - 2, last - 1].into_iter().enumerate() {
                if lost & (1 << bit) != 0 {
                    hurt.world.disk.damage(place * BLOCK + 50, 1);
                }
            }
            let is_sound = fsck(&mut hurt.world.disk).is_ok();
            if is_sound {
                hurt.crash(Crash::Process);
            }
            let is_one_end = lost.trailing_zeros() >= 2 || lost < 0b100;
            assert!(is_sound || !is_one_end, "one end alone serves: {lost:#b}");
            assert!(!is_sound || lost != 0b1111, "without any there is no pool");
        }
    }
}

#[test]
fn a_device_that_carries_something_is_refused_unless_forced() {
    let signs: [(usize, &[u8], Carries); 6] = [
        (1080, &[0x53, 0xef], Carries::Filesystem("ext")),
        (0, b"XFSB", Carries::Filesystem("xfs")),
        (65_600, b"_BHRfS_M", Carries::Filesystem("btrfs")),
        (512, b"EFI PART", Carries::Partitions("gpt")),
        (510, &[0x55, 0xaa], Carries::Partitions("mbr")),
        (0, b"LUKS\xba\xbe", Carries::Luks),
    ];
    for (at, sign, carries) in signs {
        let mut disk = SimDisk::new(1024, 1);
        for (offset, byte) in sign.iter().enumerate() {
            disk.damage(at + offset, *byte);
        }
        let refused = format(&mut disk, SMALL, false);
        assert_eq!(refused, Err(FormatError::Carries(carries)));
        assert_eq!(format(&mut disk, SMALL, true), Ok(()));
        let head = &disk.bytes()[..crate::PROBED];
        assert!(matches!(probe(head, head), Some(Carries::Pool(_))));
    }
    let mut disk = SimDisk::new(1024, 1);
    format(&mut disk, SMALL, false).expect("it is blank");
    let again = format(&mut disk, SMALL, false);
    assert!(matches!(again, Err(FormatError::Carries(Carries::Pool(_)))));
    let mut small = SimDisk::new(100, 1);
    assert!(matches!(format(&mut small, SMALL, true), Err(FormatError::TooSmall { .. })));
}
