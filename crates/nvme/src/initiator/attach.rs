//! Attaching: from a first connection to a namespace that can be read and written.
//!
//! ```text
//!  Connect ▸ Capabilities ▸ Enable ▸ Ready? ▸ Controller ▸ Queues ▸ Events
//!          ▸ IoQueues ▸ List ▸ Descriptors ▸ Namespace ▸ Ana ▸ (attached)
//! ```

use block::Buffer;
use uuid::Uuid;
use zerocopy::FromBytes;

use super::queue::Data;
use crate::{
    limits,
    wire::{
        command::{Cqe, Sqe, admin, fabrics},
        fabrics::{cc, csts, property},
        identify::{IdentifyController, IdentifyNamespace, PAGE, cns, descriptors, nidt},
        log::{self, Ana, AnaGroup, AnaHeader},
    },
};

/// Events that we want to hear of: the namespace and its accessibility.
const WANTED_EVENTS: u32 = 1 << 8 | 1 << 11;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    pub cntlid: u16,
    pub nsid: u32,
    /// In blocks of 4 KiB.
    pub blocks: u64,
    pub uuid: Option<Uuid>,
    pub nguid: [u8; 16],
    pub ana: Ana,
    /// Bytes that one operation may move.
    pub max_transfer: usize,
    pub has_write_cache: bool,
    /// I/O queues that may be used, from 1 on.
    pub io_queues: u16,
    /// How many of the namespace's blocks make one of ours, as a power of two.
    pub(crate) shift: u8,
    /// Bytes that a capsule may carry on I/O queues.
    pub(crate) inline_max: usize,
    has_ana: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Connect,
    Capabilities,
    Enable,
    Ready,
    Controller,
    Queues,
    Events,
    IoQueues,
    List,
    Descriptors,
    Namespace,
    Ana,
}

/// Something that the controller says cannot be worked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit(pub &'static str);

impl Default for Attached {
    fn default() -> Self {
        Self {
            cntlid: 0,
            nsid: 0,
            blocks: 0,
            uuid: None,
            nguid: [0; 16],
            ana: Ana::Optimized,
            max_transfer: limits::TRANSFER_MAX,
            has_write_cache: true,
            io_queues: 0,
            shift: 0,
            inline_max: 0,
            has_ana: false,
        }
    }
}

impl Step {
    /// The command of this step; `None` for those that need the session's own data.
    pub(crate) fn command(self, attached: &Attached, queues: u16) -> Option<(Sqe, Data)> {
        let identify = |what: u8, nsid: u32| {
            let sqe = Sqe::new(admin::IDENTIFY).nsid(nsid).words([u32::from(what)]);
            (sqe, Data::In(PAGE))
        };
        let property = |offset: u32, size: u32| {
            (Sqe::fabrics(fabrics::PROPERTY_GET).words([size, offset]), Data::None)
        };
        let feature = |what: u32, value: u32| {
            (Sqe::new(admin::SET_FEATURES).words([what, value]), Data::None)
        };
        match self {
            Self::Connect | Self::IoQueues => None,
            Self::Capabilities => Some(property(property::CAP, property::WIDE)),
            Self::Enable => {
                let configuration = cc::ENABLE | cc::ENTRY_SIZES;
                let words = [0, property::CC, configuration];
                Some((Sqe::fabrics(fabrics::PROPERTY_SET).words(words), Data::None))
            }
            Self::Ready => Some(property(property::CSTS, 0)),
            Self::Controller => Some(identify(cns::CONTROLLER, 0)),
            Self::Queues => {
                let count = u32::from(queues.max(1) - 1);
                Some(feature(0x07, count | count << 16))
            }
            Self::Events => Some(feature(0x0b, WANTED_EVENTS)),
            Self::List => Some(identify(cns::ACTIVE_NAMESPACES, 0)),
            Self::Descriptors => Some(identify(cns::DESCRIPTORS, attached.nsid)),
            Self::Namespace => Some(identify(cns::NAMESPACE, attached.nsid)),
            Self::Ana => Some(log_page(log::id::ANA, 4096)),
        }
    }
}

/// A whole log page; reading it lets the next event of its kind be told.
pub(crate) fn log_page(what: u8, bytes: usize) -> (Sqe, Data) {
    let dwords = u32::try_from(bytes / 4).unwrap_or(1) - 1;
    let sqe = Sqe::new(admin::GET_LOG_PAGE).nsid(0xffff_ffff);
    (sqe.words([u32::from(what) | dwords << 16]), Data::In(bytes))
}

impl Attached {
    /// Nothing is known yet but how many queues we want.
    pub(crate) fn with_queues(io_queues: u16) -> Self {
        Self { io_queues, ..Self::default() }
    }

    /// Takes in the answer to a step and says what comes next; `None` once all is known.
    pub(crate) fn learn(
        &mut self,
        step: Step,
        cqe: &Cqe,
        data: Option<&Buffer>,
    ) -> Result<Option<Step>, Unfit> {
        let bytes = data.map_or(&[][..], |data| data.bytes());
        Ok(match step {
            Step::Connect => {
                let [a, b, ..] = cqe.value().to_le_bytes();
                self.cntlid = u16::from_le_bytes([a, b]);
                Some(Step::Capabilities)
            }
            Step::Capabilities => Some(Step::Enable),
            Step::Enable => Some(Step::Ready),
            Step::Ready if cqe.value() & csts::FATAL != 0 => {
                return Err(Unfit("the controller has failed"));
            }
            Step::Ready if cqe.value() & csts::READY == 0 => Some(Step::Ready),
            Step::Ready => Some(Step::Controller),
            Step::Controller => {
                self.learn_controller(bytes)?;
                Some(Step::Queues)
            }
            Step::Queues => {
                let [a, b, c, d] = cqe.value().to_le_bytes();
                let granted = u16::from_le_bytes([a, b]).min(u16::from_le_bytes([c, d]));
                self.io_queues = self.io_queues.min(granted.saturating_add(1));
                Some(Step::Events)
            }
            Step::Events => Some(Step::IoQueues),
            Step::IoQueues => Some(Step::List),
            Step::List => {
                let (nsid, _) = u32::read_from_prefix(bytes).map_err(|_| Unfit("a short list"))?;
                self.nsid = u32::from_le(nsid);
                if self.nsid == 0 {
                    return Err(Unfit("there is no namespace"));
                }
                Some(Step::Descriptors)
            }
            Step::Descriptors => {
                let id = descriptors(bytes).find(|(kind, _)| *kind == nidt::UUID);
                self.uuid = id.and_then(|(_, id)| Uuid::from_slice(id).ok());
                Some(Step::Namespace)
            }
            Step::Namespace => {
                self.learn_namespace(bytes)?;
                self.has_ana.then_some(Step::Ana)
            }
            Step::Ana => {
                self.learn_ana(bytes);
                None
            }
        })
    }

    fn learn_controller(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        let (page, _) = IdentifyController::ref_from_prefix(bytes)
            .map_err(|_| Unfit("a short page on the controller"))?;
        if page.cntlid.get() != self.cntlid {
            return Err(Unfit("the controller does not know its number"));
        }
        if page.ioccsz.get() < 4 || page.iorcsz.get() < 1 || page.icdoff.get() != 0 {
            return Err(Unfit("its capsules are too small"));
        }
        let inline = (page.ioccsz.get() as usize).saturating_mul(16).saturating_sub(64);
        self.inline_max = inline.min(limits::TRANSFER_MAX);
        if page.mdts != 0 {
            let most = 4096usize.checked_shl(page.mdts.into()).unwrap_or(usize::MAX);
            self.max_transfer = self.max_transfer.min(most);
        }
        self.has_write_cache = page.vwc & 1 != 0;
        self.has_ana = page.cmic & 1 << 3 != 0;
        Ok(())
    }

    pub(crate) fn learn_namespace(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        let (page, _) = IdentifyNamespace::ref_from_prefix(bytes)
            .map_err(|_| Unfit("a short page on the namespace"))?;
        let format = &page.formats[usize::from(page.flbas & 0xf)];
        if !(9..=12).contains(&format.lbads) || format.metadata.get() != 0 {
            return Err(Unfit("a format of blocks that cannot be used"));
        }
        self.shift = 12 - format.lbads;
        self.blocks = page.nsze.get() >> self.shift;
        self.nguid = page.nguid;
        Ok(())
    }

    /// The state of the group that lists our namespace.
    pub(crate) fn learn_ana(&mut self, bytes: &[u8]) {
        let Ok((header, mut rest)) = AnaHeader::ref_from_prefix(bytes) else { return };
        for _ in 0..header.groups.get() {
            let Ok((group, after)) = AnaGroup::ref_from_prefix(rest) else { return };
            let listed = group.namespaces.get() as usize;
            let Some(nsids) = after.get(..listed.saturating_mul(4)) else { return };
            let (nsids, _) = nsids.as_chunks::<4>();
            if nsids.iter().any(|nsid| u32::from_le_bytes(*nsid) == self.nsid)
                && let Some(state) = Ana::from_number(group.state)
            {
                self.ana = state;
            }
            rest = &after[listed * 4..];
        }
    }
}
