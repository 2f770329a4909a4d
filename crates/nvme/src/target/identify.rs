//! Identify: what a controller and its namespace are.

use alloc::{string::String, vec, vec::Vec};

use zerocopy::{
    FromZeros, IntoBytes,
    little_endian::{U16, U32, U64},
};

use super::{
    core::{Answer, Core},
    event,
    property::VERSION,
    session::{Session, SessionId},
    subsystem::{NSID, Namespace},
};
use crate::{
    limits,
    status::Code,
    wire::{
        command::Sqe,
        fabrics::{DISCOVERY_NQN, put_name},
        identify::{Descriptor, IdentifyController, IdentifyNamespace, PAGE, cns, nidt},
    },
};

/// Stands for all namespaces.
pub(crate) const ALL_NAMESPACES: u32 = 0xffff_ffff;

/// The one group of namespaces that are as accessible as each other.
pub(crate) const ANA_GROUP: u32 = 1;

/// What a controller of the discovery service has the serial number of.
const DISCOVERY_SERIAL: &str = "discovery";

impl Core {
    pub(crate) fn identify(&self, id: SessionId, sqe: &Sqe) -> Answer {
        let Some(session) = self.session(id) else { return Code::InternalError.into() };
        let [what, ..] = sqe.word(10).to_le_bytes();
        let nsid = sqe.nsid.get();
        let exported = self.exported(id).map(|(_, exported)| &exported.subsystem);
        let namespace = exported.map(|subsystem| &subsystem.namespace);
        let can_last = exported.is_some_and(|subsystem| subsystem.kind.can_last());
        match (what, namespace) {
            (cns::CONTROLLER, _) => {
                let (nqn, serial) = exported
                    .map_or((DISCOVERY_NQN, DISCOVERY_SERIAL), |subsystem| {
                        (subsystem.nqn.as_str(), subsystem.serial.as_str())
                    });
                Answer::data(controller(session, nqn, serial).as_bytes())
            }
            (cns::NAMESPACE, Some(namespace)) => match nsid {
                NSID => Answer::data(describe(namespace, can_last).as_bytes()),
                // Fields that all namespaces share; there are none that could differ.
                ALL_NAMESPACES => Answer::data(describe(&common(namespace), can_last).as_bytes()),
                _ => Code::InvalidNamespace.into(),
            },
            (cns::ACTIVE_NAMESPACES, Some(_)) => match nsid {
                0 => Answer::data(&list(&[NSID])),
                ALL_NAMESPACES | 0xffff_fffe => Code::InvalidNamespace.into(),
                _ => Answer::data(&list(&[])),
            },
            (cns::DESCRIPTORS, Some(namespace)) => match nsid {
                NSID => Answer::data(&descriptors(namespace)),
                _ => Code::InvalidNamespace.into(),
            },
            _ => Code::InvalidField.into(),
        }
    }
}

fn common(namespace: &Namespace) -> Namespace {
    Namespace { blocks: 0, nguid: [0; 16], ..namespace.clone() }
}

fn list(nsids: &[u32]) -> Vec<u8> {
    let mut page: Vec<u8> = nsids.iter().flat_map(|nsid| nsid.to_le_bytes()).collect();
    page.resize(PAGE, 0);
    page
}

fn descriptors(namespace: &Namespace) -> Vec<u8> {
    let mut page = Vec::with_capacity(PAGE);
    let ids = [(nidt::NGUID, namespace.nguid), (nidt::UUID, *namespace.uuid.as_bytes())];
    for (nidt, id) in ids {
        let head = Descriptor { nidt, nidl: 16, reserved: [0; 2] };
        page.extend_from_slice(head.as_bytes());
        page.extend_from_slice(&id);
    }
    page.resize(PAGE, 0);
    page
}

/// Text, filled up with spaces.
fn put_text(field: &mut [u8], text: &str) {
    let text: String = text.chars().map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
    let len = text.len().min(field.len());
    field.fill(b' ');
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}

fn controller(session: &Session, nqn: &str, serial: &str) -> IdentifyController {
    let mut page = IdentifyController::new_zeroed();
    put_text(&mut page.serial, serial);
    put_text(&mut page.model, "Holdfast");
    put_text(&mut page.firmware, "1");
    put_name(&mut page.subnqn, nqn);
    page.mdts = limits::MDTS;
    page.cntlid = U16::new(session.cntlid);
    page.version = U32::new(VERSION);
    // 128-bit host identifiers; any traffic keeps the connection alive.
    page.ctratt = U32::new(1 | 1 << 6);
    page.acl = 3;
    page.aerl = u8::try_from(limits::EVENT_REQUESTS - 1).unwrap_or_default();
    // Commands' effects are told, and logs can be read from any offset.
    page.lpa = 1 << 1 | 1 << 2;
    page.frmw = 1 << 1 | 1;
    page.kas = U16::new(1);
    page.sqes = 0x66;
    page.cqes = 0x44;
    page.maxcmd = U16::new(limits::QUEUE_ENTRIES);
    // Lists of any alignment, offsets in capsules, the transport's own descriptor.
    page.sgls = U32::new(1 | 1 << 20 | 1 << 21);
    page.iorcsz = U32::new(1);
    page.msdbd = 1;
    if session.subsystem.is_some() {
        io_controller(&mut page);
    } else {
        page.kind = 2;
        page.ioccsz = U32::new(4);
        page.oaes = U32::new(event::Kind::Discovery.feature_bit());
    }
    page
}

/// What only a controller with I/O queues has.
fn io_controller(page: &mut IdentifyController) {
    page.kind = 1;
    // Several controllers, of several hosts, with namespaces of differing accessibility.
    page.cmic = 1 << 1 | 1 << 3;
    let events = event::Kind::Namespace.feature_bit() | event::Kind::Ana.feature_bit();
    page.oaes = U32::new(events);
    let capsule = 64 + u32::try_from(limits::INLINE_MAX).unwrap_or_default();
    page.ioccsz = U32::new(capsule / 16);
    page.nn = U32::new(NSID);
    page.mnan = U32::new(NSID);
    // Compare, Dataset Management, Write Zeroes, reservations, Verify.
    page.oncs = U16::new(1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 7);
    // There is a cache, and Flush with all namespaces named is refused.
    page.vwc = 1 | 2 << 1;
    // The command that must not be delayed longer than this while states change.
    page.anatt = 10;
    // Every state is reported; a namespace does not change its group.
    page.anacap = 0x1f | 1 << 6;
    page.anagrpmax = U32::new(ANA_GROUP);
    page.nanagrpid = U32::new(ANA_GROUP);
    // Disconnect is understood.
    page.ofcs = U16::new(1);
}

fn describe(namespace: &Namespace, can_last: bool) -> IdentifyNamespace {
    let mut page = IdentifyNamespace::new_zeroed();
    let blocks = U64::new(namespace.blocks);
    (page.nsze, page.ncap, page.nuse) = (blocks, blocks, blocks);
    // Thin or not; the hints on granularity below hold.
    page.nsfeat = u8::from(namespace.is_thin) | 1 << 4;
    page.nmic = 1;
    // All kinds of reservations, and lasting ones where they do; keys are ignored as since 1.3.
    page.rescap = 0xfe | u8::from(can_last);
    // What was deallocated reads as zeros, and Write Zeroes may deallocate.
    page.dlfeat = 1 | 1 << 3;
    page.anagrpid = U32::new(ANA_GROUP);
    page.nguid = namespace.nguid;
    page.formats[0].lbads = 12;
    let bytes = u128::from(namespace.blocks) * 4096;
    page.nvmcap = bytes.to_le_bytes();
    page
}

/// A page of zeros, for logs.
pub(crate) fn zeros(len: usize) -> Vec<u8> {
    vec![0; len]
}
