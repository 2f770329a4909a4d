//! Units on their way out: headers gathered in one place, payloads left where they are.

use alloc::vec::Vec;
use core::cell::RefCell;

use block::{BLOCK, Buffer, Buffers};
use zerocopy::{
    Immutable, IntoBytes,
    little_endian::{U16, U32},
};

use crate::{
    frame::{Digests, Fault},
    wire::pdu::{Common, DDGST, HDGST, Kind, TermReq},
};

/// Below this many bytes a payload is copied in with the headers: a piece less to send.
const SMALL: usize = 512;

/// What to send on one connection, in order. Any number of units, of which the payloads are shared
/// with whoever gave them.
#[derive(Debug)]
pub struct Outgoing {
    heads: Vec<u8>,
    /// How many bytes of `heads` go before it, and the payload.
    payloads: Vec<(usize, Buffer)>,
    payload_bytes: usize,
    /// Headers that were shared, to be used again when they are sent.
    shared: RefCell<Buffers>,
}

/// Bytes of headers that a batch holds on to: two blocks, for the one before may not be sent yet.
/// A block holds the headers of more commands than most batches have.
const REUSED_HEADS: usize = 2 * BLOCK;

impl Default for Outgoing {
    fn default() -> Self {
        let shared = RefCell::new(Buffers::new(REUSED_HEADS));
        Self { heads: Vec::new(), payloads: Vec::new(), payload_bytes: 0, shared }
    }
}

impl Outgoing {
    /// In bytes.
    pub fn len(&self) -> usize {
        self.heads.len() + self.payload_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is left of it after the first `sent` bytes, in pieces fit for one vectored write.
    pub fn pieces(&self, sent: usize) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let heads = self.payloads.iter().flat_map(move |(upto, payload)| {
            let head = from..*upto;
            from = *upto;
            [&self.heads[head], payload.bytes()]
        });
        let tail = self.payloads.last().map_or(0, |(upto, _)| *upto);
        let mut skip = sent;
        heads.chain([&self.heads[tail..]]).filter_map(move |piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            Some(&piece[skipped..]).filter(|piece| !piece.is_empty())
        })
    }

    /// All of it, for those who send later: the headers are copied once, the payloads are shared.
    pub fn shared(&self) -> impl Iterator<Item = Buffer> + '_ {
        let heads = self.shared_heads();
        let mut from = 0;
        let mut payloads = self.payloads.iter();
        // What goes after the headers that were told last.
        let mut after: Option<&Buffer> = None;
        core::iter::from_fn(move || {
            if let Some(payload) = after.take() {
                return Some(payload.clone());
            }
            let next = payloads.next();
            let head = from..next.map_or(heads.len(), |(upto, _)| *upto);
            from = head.end;
            let payload = next.map(|(_, payload)| payload);
            if head.is_empty() {
                return payload.cloned();
            }
            after = payload;
            Some(heads.slice(head))
        })
    }

    fn shared_heads(&self) -> Buffer {
        let mut buffers = self.shared.borrow_mut();
        let mut heads = buffers.take(self.heads.len());
        if let Some(to) = heads.get_mut() {
            to.copy_from_slice(&self.heads);
        }
        buffers.lend(&heads);
        heads
    }

    /// Empties it but keeps its memory, so that it can be handed back for the next batch.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.payloads.clear();
        self.payload_bytes = 0;
    }

    /// A unit without data.
    pub(crate) fn unit<T: IntoBytes + Immutable>(&mut self, header: &T, digests: Digests) {
        let bytes = header.as_bytes();
        self.heads.extend_from_slice(bytes);
        if digests.header {
            self.heads.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
        }
    }

    /// A unit with data; its common part must have been made by `common` for as much.
    pub(crate) fn unit_with<T: IntoBytes + Immutable>(
        &mut self,
        header: &T,
        data: &Buffer,
        digests: Digests,
    ) {
        self.unit(header, digests);
        let bytes = header.as_bytes();
        // The padding that the peer asked for, as the header already says.
        let padding = usize::from(bytes[3]) - bytes.len() - digests.header_len();
        self.heads.resize(self.heads.len() + padding, 0);
        if data.len() < SMALL {
            self.heads.extend_from_slice(data.bytes());
        } else {
            self.payload_bytes += data.len();
            self.payloads.push((self.heads.len(), data.clone()));
        }
        if digests.data {
            self.heads.extend_from_slice(&crc32c::crc32c(data.bytes()).to_le_bytes());
        }
    }

    /// Tells the peer what it did wrong, with the header that shows it.
    pub(crate) fn termination(&mut self, kind: Kind, fault: Fault, bad: &[u8]) {
        let mut term = TermReq {
            common: Common::bare(kind),
            fes: U16::new(fault.fes.number()),
            fei: U32::new(fault.fei),
            reserved: [0; 10],
        };
        let plen = size_of::<TermReq>() + bad.len();
        term.common.plen = U32::new(u32::try_from(plen).unwrap_or_default());
        self.heads.extend_from_slice(term.as_bytes());
        self.heads.extend_from_slice(bad);
    }
}

/// The common part of a unit with `data` bytes, which begin at a multiple of `align`.
pub(crate) fn common(kind: Kind, flags: u8, data: usize, digests: Digests, align: usize) -> Common {
    let hlen = kind.header_len();
    let mut flags = flags;
    let mut plen = usize::from(hlen) + digests.header_len();
    let mut pdo = 0;
    if digests.header {
        flags |= HDGST;
    }
    if data > 0 {
        plen = plen.next_multiple_of(align);
        pdo = u8::try_from(plen).unwrap_or(u8::MAX);
        plen += data + digests.data_len();
        flags |= if digests.data { DDGST } else { 0 };
    }
    let plen = U32::new(u32::try_from(plen).unwrap_or(u32::MAX));
    Common { kind: kind.byte(), flags, hlen, pdo, plen }
}
