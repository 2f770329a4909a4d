//! Giving space back to a device: a call of its own, and blocking, so it runs on a thread aside.

use rustix::{
    fs::FallocateFlags,
    io::Errno,
    ioctl::{self, Setter, opcode},
};

use super::{Disk, DiskKind};

/// Punches a hole into a file, or discards blocks of a device.
pub(crate) fn discard(disk: &Disk, offset: u64, len: u64) -> Result<(), Errno> {
    match disk.kind() {
        DiskKind::File => rustix::fs::fallocate(disk, hole(), offset, len),
        DiskKind::Device => discard_blocks(disk, offset, len),
    }
}

pub(crate) fn hole() -> FallocateFlags {
    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
}

/// `BLKDISCARD` of `<linux/fs.h>`: offset and length, in bytes.
#[allow(unsafe_code, reason = "neither std nor rustix has this call in a safe form")]
fn discard_blocks(disk: &Disk, offset: u64, len: u64) -> Result<(), Errno> {
    const BLKDISCARD: ioctl::Opcode = opcode::none(0x12, 119);
    // SAFETY: `Setter::new` wants the opcode to take a pointer to the input, and not to keep it:
    // BLKDISCARD reads two 64-bit numbers at it and forgets it, and it was checked that this is
    // a block device, whose meaning of the number this is.
    let range = unsafe { Setter::<BLKDISCARD, [u64; 2]>::new([offset, len]) };
    // SAFETY: `ioctl` wants an opcode that fits its argument, which the line above made sure of;
    // a range past the end is an error. It writes to no memory of ours.
    unsafe { ioctl::ioctl(disk, range) }
}
