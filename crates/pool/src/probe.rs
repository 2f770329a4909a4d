//! What a device carries, by its first and last bytes: nothing of value may be overwritten because
//! somebody named the wrong disk.

use model::PoolId;

use crate::superblock::Superblock;

/// How many bytes of each end are looked at, or the whole of a smaller device.
pub const PROBED: usize = 1 << 20;

/// Something that somebody may want to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Carries {
    #[error("pool {0}")]
    Pool(PoolId),
    #[error("a damaged pool")]
    DamagedPool,
    #[error("a file system ({0})")]
    Filesystem(&'static str),
    #[error("swap space")]
    Swap,
    #[error("an LVM physical volume")]
    Lvm,
    #[error("a member of an md array")]
    Md,
    #[error("a LUKS container")]
    Luks,
    #[error("a ZFS pool's member")]
    Zfs,
    #[error("a partition table ({0})")]
    Partitions(&'static str),
    #[error("another storage system's data ({0})")]
    Other(&'static str),
}

type Sign = (usize, &'static [u8], Carries);

/// At an offset from the start. Boot sectors come last: some of the others have one, too.
const SIGNS: &[Sign] = &[
    (1080, &[0x53, 0xef], Carries::Filesystem("ext")),
    (0, b"XFSB", Carries::Filesystem("xfs")),
    (65_600, b"_BHRfS_M", Carries::Filesystem("btrfs")),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], Carries::Filesystem("f2fs")),
    (1024, &[0xe2, 0xe1, 0xf5, 0xe0], Carries::Filesystem("erofs")),
    (0, b"hsqs", Carries::Filesystem("squashfs")),
    (32_769, b"CD001", Carries::Filesystem("iso9660")),
    (3, b"NTFS    ", Carries::Filesystem("ntfs")),
    (82, b"FAT32   ", Carries::Filesystem("fat")),
    (54, b"FAT", Carries::Filesystem("fat")),
    (3, b"EXFAT   ", Carries::Filesystem("exfat")),
    (4086, b"SWAPSPACE2", Carries::Swap),
    (4086, b"SWAP-SPACE", Carries::Swap),
    (0, b"LABELONE", Carries::Lvm),
    (512, b"LABELONE", Carries::Lvm),
    (1024, b"LABELONE", Carries::Lvm),
    (1536, b"LABELONE", Carries::Lvm),
    (0, &MD, Carries::Md),
    (4096, &MD, Carries::Md),
    (0, b"LUKS\xba\xbe", Carries::Luks),
    (16_384, b"SKUL\xba\xbe", Carries::Luks),
    (0, b"bluestore block device", Carries::Other("bluestore")),
    (4120, &BCACHE, Carries::Other("bcache")),
    (512, b"EFI PART", Carries::Partitions("gpt")),
    (4096, b"EFI PART", Carries::Partitions("gpt")),
    (510, &[0x55, 0xaa], Carries::Partitions("mbr")),
];

const MD: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

const BCACHE: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81,
];

/// `head` and `tail` are the first and the last bytes of the device, `PROBED` of them if there are
/// so many, whole blocks.
pub fn probe(head: &[u8], tail: &[u8]) -> Option<Carries> {
    let ours = pool(head).or_else(|| pool(tail));
    let sign = SIGNS
        .iter()
        .find(|(offset, sign, _)| head.get(*offset..).is_some_and(|bytes| bytes.starts_with(sign)));
    ours.or_else(|| zfs(head).or_else(|| zfs(tail)))
        .or_else(|| md_at_end(tail))
        .or_else(|| sign.map(|(_, _, carries)| *carries))
        .or_else(|| gpt_at_end(tail))
}

/// Its superblocks lie in the first and the last two blocks.
fn pool(bytes: &[u8]) -> Option<Carries> {
    let blocks = bytes.as_chunks::<4096>().0;
    let ends = blocks.iter().take(2).chain(blocks.iter().rev().take(2));
    ends.filter(|block| block.starts_with(&crate::superblock::MAGIC))
        .map(|block| match Superblock::decode(block) {
            Ok(superblock) => Carries::Pool(superblock.pool),
            Err(_) => Carries::DamagedPool,
        })
        .next()
}

/// Two labels of 256 KiB at each end; the second half of each is a ring of blocks of 1 KiB or more
/// that begin with this number, in either byte order.
fn zfs(bytes: &[u8]) -> Option<Carries> {
    let magic = 0x00ba_b10c_u64;
    let signs = [magic.to_le_bytes(), magic.to_be_bytes()];
    let blocks = bytes.as_chunks::<1024>().0;
    blocks
        .iter()
        .any(|block| signs.iter().any(|sign| block.starts_with(sign)))
        .then_some(Carries::Zfs)
}

/// Old formats keep their superblock in the last 64 to 128 KiB, or 8 to 12 KiB.
fn md_at_end(tail: &[u8]) -> Option<Carries> {
    let last = tail.len().saturating_sub(128 * 1024);
    let blocks = tail[last..].as_chunks::<4096>().0;
    blocks.iter().any(|block| block.starts_with(&MD)).then_some(Carries::Md)
}

fn gpt_at_end(tail: &[u8]) -> Option<Carries> {
    let is_at = |from_end: usize| {
        tail.len().checked_sub(from_end).is_some_and(|at| tail[at..].starts_with(b"EFI PART"))
    };
    (is_at(512) || is_at(4096)).then_some(Carries::Partitions("gpt"))
}
