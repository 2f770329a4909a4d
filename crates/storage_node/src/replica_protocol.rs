//! The words between targets and replicas on NVMe: which command stands for which request.
//!
//! Data moves by NVMe's own commands. A fence is a reservation: register the epoch as key, acquire
//! with preemption. The rest are vendor commands on the admin queue, their payload in postcard.

use alloc::vec::Vec;
use block::Buffer;

use mirror::{Fault, Frozen, Request, State};
use nvme::{Code, Status, Vendor, VendorData};

/// Bit 0: data to the controller; bit 1: data from it.
pub(crate) const SNAPSHOT: u8 = 0xc1;
pub(crate) const ROSTER: u8 = 0xc5;
pub(crate) const CLEAN: u8 = 0xc9;
pub(crate) const SNAP_ABORT: u8 = 0xcd;
pub(crate) const COPIED: u8 = 0xd1;
pub(crate) const STOP: u8 = 0xd5;
pub(crate) const GET_STATE: u8 = 0xc2;
pub(crate) const ALLOC_MAP: u8 = 0xc6;
pub(crate) const IMAGES: u8 = 0xce;
pub(crate) const READ_IMAGE: u8 = 0xd2;

/// Bytes of a state at most: bitmaps of a replica and of its peers.
const STATE_MAX: usize = nvme::limits::TRANSFER_MAX;

/// A request that is no data command, as a vendor command.
pub(crate) fn vendor(request: &Request<Buffer>) -> Option<Vendor> {
    let opcode = match request {
        Request::Roster { .. } | Request::Absent { .. } => ROSTER,
        Request::Clean { .. } => CLEAN,
        Request::Copied { .. } => COPIED,
        Request::Snapshot(_) => SNAPSHOT,
        Request::SnapAbort { .. } => SNAP_ABORT,
        Request::Stop => STOP,
        _ => return None,
    };
    let bytes = postcard::to_allocvec(&without_data::<_, ()>(request.clone())?).ok()?;
    let data = VendorData::ToController(Buffer::copy_of(&bytes));
    // The exact size, because data is moved in whole words of four bytes.
    let size = u32::try_from(bytes.len()).ok()?;
    Some(Vendor { opcode, words: [size.div_ceil(4), 0, size, 0, 0, 0], data })
}

pub(crate) fn get_state() -> Vendor {
    get(GET_STATE)
}

/// The snapshots of a replica, each with the number by which it is read.
pub(crate) fn get_images() -> Vendor {
    get(IMAGES)
}

fn get(opcode: u8) -> Vendor {
    let words = u32::try_from(STATE_MAX / 4).unwrap_or(0);
    let data = VendorData::FromController(STATE_MAX);
    Vendor { opcode, words: [words, 0, 0, 0, 0, 0], data }
}

/// A command that no replica knows.
pub(crate) fn unknown() -> Vendor {
    Vendor { opcode: 0xfc, words: [0; 6], data: VendorData::None }
}

/// One bit per block, set where there is data, and then one per block, set where that may differ
/// from the snapshot `since`. Snapshots go by their numbers; zero is none.
pub(crate) fn alloc_map(extent: block::Extent, image: u32, since: u32) -> Vendor {
    ranged(ALLOC_MAP, extent, 2 * map_bytes(extent), since, image)
}

/// Bytes of one bit per block.
pub(crate) fn map_bytes(extent: block::Extent) -> usize {
    usize::try_from(extent.blocks.div_ceil(8)).unwrap_or(0).next_multiple_of(4)
}

/// Blocks of a snapshot.
pub(crate) fn read_image(extent: block::Extent, image: u32) -> Vendor {
    ranged(READ_IMAGE, extent, usize::try_from(extent.bytes()).unwrap_or(0), 0, image)
}

fn ranged(opcode: u8, extent: block::Extent, bytes: usize, since: u32, image: u32) -> Vendor {
    let words = u32::try_from(bytes / 4).unwrap_or(0);
    let low = u32::try_from(extent.start & u64::from(u32::MAX)).unwrap_or(0);
    let high = u32::try_from(extent.start >> 32).unwrap_or(0);
    let data = VendorData::FromController(bytes);
    Vendor { opcode, words: [words, since, low, high, extent.blocks, image], data }
}

/// What a vendor command asks for; `None` if it is not understood.
pub(crate) fn request(vendor: &Vendor) -> Option<Request<Buffer>> {
    let VendorData::ToController(data) = &vendor.data else { return None };
    let size = usize::try_from(vendor.words[2]).ok()?;
    let decoded: Request<()> = postcard::from_bytes(data.bytes().get(..size)?).ok()?;
    without_data(decoded)
}

pub(crate) fn asked_extent(vendor: &Vendor) -> block::Extent {
    let [_, _, low, high, blocks, _] = vendor.words;
    block::Extent::new(u64::from(low) | u64::from(high) << 32, blocks)
}

pub(crate) fn put_state(state: &State) -> Option<Buffer> {
    framed(&postcard::to_allocvec(state).ok()?)
}

pub(crate) fn put_images(images: &[(u32, Frozen)]) -> Option<Buffer> {
    framed(&postcard::to_allocvec(images).ok()?)
}

fn framed(bytes: &[u8]) -> Option<Buffer> {
    let mut framed = u32::try_from(bytes.len()).ok()?.to_le_bytes().to_vec();
    framed.extend_from_slice(bytes);
    framed.resize(framed.len().next_multiple_of(4), 0);
    (framed.len() <= STATE_MAX).then(|| Buffer::copy_of(&framed))
}

pub(crate) fn state(bytes: &[u8]) -> Option<State> {
    postcard::from_bytes(unframed(bytes)?).ok()
}

pub(crate) fn images(bytes: &[u8]) -> Option<Vec<(u32, Frozen)>> {
    postcard::from_bytes(unframed(bytes)?).ok()
}

fn unframed(bytes: &[u8]) -> Option<&[u8]> {
    let (size, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::try_from(u32::from_le_bytes(*size)).ok()?)
}

/// How a replica's refusal travels. `outdated`: a target of a higher epoch has it.
pub(crate) fn status(fault: Fault, epoch: model::Epoch) -> Status {
    let code = match fault {
        Fault::Stale { epoch: newest } if newest > epoch => Code::ReservationConflict,
        Fault::Stale { .. } => Code::AbortRequested,
        Fault::NoSpace => Code::CapacityExceeded,
        Fault::Media => Code::UnrecoveredRead,
        Fault::Faulted => Code::PersistentLoss,
        Fault::Refused => Code::CommandSequence,
    };
    Status::new(code)
}

/// And what it meant, for a target of this epoch.
pub(crate) fn fault(status: Status, epoch: model::Epoch) -> Fault {
    match status.code {
        Code::ReservationConflict => Fault::Stale { epoch: epoch.next() },
        Code::AbortRequested => Fault::Stale { epoch: model::Epoch::ZERO },
        Code::CapacityExceeded => Fault::NoSpace,
        Code::CommandSequence => Fault::Refused,
        Code::PersistentLoss => Fault::Faulted,
        _ => Fault::Media,
    }
}

/// The same request for another kind of data, if it has none.
fn without_data<A, B>(request: Request<A>) -> Option<Request<B>> {
    Some(match request {
        Request::Roster { roster, members, absent, flushed, intact } => {
            Request::Roster { roster, members, absent, flushed, intact }
        }
        Request::Absent { absent } => Request::Absent { absent },
        Request::Clean { regions, flushed } => Request::Clean { regions, flushed },
        Request::Copied { peer, regions } => Request::Copied { peer, regions },
        Request::Snapshot(frozen) => Request::Snapshot(frozen),
        Request::SnapAbort { snapshot, attempt } => Request::SnapAbort { snapshot, attempt },
        Request::Stop => Request::Stop,
        _ => return None,
    })
}
