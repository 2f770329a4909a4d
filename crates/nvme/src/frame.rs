//! Bytes into units: where a header ends, where data begins, and whether the digests agree.
//!
//! Both halves of the protocol use it. It holds no data: the owner says where that goes, so that
//! a payload is copied once, from the socket's bytes into its buffer.

use crate::wire::pdu::{
    COMMON, Common, DDGST, DIGEST, Fes, HDGST, HEADER_MAX, Kind, TERM_DATA_MAX,
};
use zerocopy::FromBytes;

/// Which half is listening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    Target,
    Initiator,
}

impl Listener {
    const fn hears(self, kind: Kind) -> bool {
        match self {
            Self::Target => {
                matches!(kind, Kind::IcReq | Kind::H2cTermReq | Kind::CapsuleCmd | Kind::H2cData)
            }
            Self::Initiator => matches!(
                kind,
                Kind::IcResp | Kind::C2hTermReq | Kind::CapsuleResp | Kind::C2hData | Kind::R2t
            ),
        }
    }
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digests {
    pub header: bool,
    pub data: bool,
}

impl Digests {
    pub const BOTH: Self = Self { header: true, data: true };
    pub const NONE: Self = Self { header: false, data: false };

    pub(crate) fn to_bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self { header: bits & HDGST != 0, data: bits & DDGST != 0 }
    }

    pub(crate) fn header_len(self) -> usize {
        if self.header { DIGEST } else { 0 }
    }

    pub(crate) fn data_len(self) -> usize {
        if self.data { DIGEST } else { 0 }
    }
}

/// The peer broke the rules of the transport: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub fes: Fes,
    /// For a wrong field its offset in the header; for a wrong digest the digest.
    pub fei: u32,
}

impl Fault {
    pub(crate) const fn field(at: u32) -> Self {
        Self { fes: Fes::InvalidField, fei: at }
    }

    pub(crate) const fn new(fes: Fes) -> Self {
        Self { fes, fei: 0 }
    }
}

/// One step through a unit.
#[derive(Debug)]
pub(crate) enum Got<'a> {
    /// The header is whole and its digest good; `Receiver::header` has it. So many bytes of data
    /// follow; if none, the unit is over.
    Header { kind: Kind, data: usize },
    /// The next piece of its data.
    Data(&'a [u8]),
    /// The last piece of its data, which has no digest: the unit is over.
    Last(&'a [u8]),
    /// The data is over.
    End { is_intact: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Gathering until so many bytes are there: first the common part, then the rest.
    Header {
        have: usize,
        want: usize,
    },
    Padding {
        left: usize,
        data: usize,
    },
    Data {
        left: usize,
    },
    Digest {
        have: usize,
    },
}

/// Between units.
const FRESH: State = State::Header { have: 0, want: COMMON };

#[derive(Debug)]
pub(crate) struct Receiver {
    listener: Listener,
    pub digests: Digests,
    state: State,
    kind: Kind,
    /// What is valid of `header`; kept when the unit is over, because its owner looks at it then.
    seen: usize,
    header: [u8; HEADER_MAX + DIGEST],
    crc: u32,
    digest: [u8; DIGEST],
}

impl Receiver {
    pub(crate) fn new(listener: Listener) -> Self {
        Self {
            listener,
            digests: Digests::NONE,
            state: FRESH,
            kind: Kind::IcReq,
            seen: 0,
            header: [0; HEADER_MAX + DIGEST],
            crc: 0,
            digest: [0; DIGEST],
        }
    }

    /// The header that came last, without digest; while it is being gathered, what there is of it.
    pub(crate) fn header(&self) -> &[u8] {
        let whole = usize::from(self.kind.header_len());
        &self.header[..self.seen.min(whole)]
    }

    pub(crate) fn flags(&self) -> u8 {
        self.header[1]
    }

    /// Takes bytes off the front of `input` until something happened; `None` once all are used.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Got<'a>>, Fault> {
        while !input.is_empty() || self.is_due() {
            match self.state {
                State::Header { have, want } => {
                    if let Some(got) = self.gather(input, have, want)? {
                        return Ok(Some(got));
                    }
                }
                State::Padding { left, data } => {
                    let skipped = take(input, left).len();
                    self.state = match left - skipped {
                        0 => State::Data { left: data },
                        left => State::Padding { left, data },
                    };
                }
                State::Data { left: 0 } if self.has_data_digest() => {
                    self.state = State::Digest { have: 0 };
                }
                State::Data { left: 0 } => {
                    self.state = FRESH;
                    return Ok(Some(Got::End { is_intact: true }));
                }
                State::Data { left } => {
                    let piece = take(input, left);
                    self.passed(piece);
                    if self.is_due() {
                        self.state = FRESH;
                        return Ok(Some(Got::Last(piece)));
                    }
                    return Ok(Some(Got::Data(piece)));
                }
                State::Digest { have } => {
                    let piece = take(input, DIGEST - have);
                    self.digest[have..have + piece.len()].copy_from_slice(piece);
                    self.state = State::Digest { have: have + piece.len() };
                    if have + piece.len() == DIGEST {
                        let is_intact = u32::from_le_bytes(self.digest) == self.crc;
                        self.state = FRESH;
                        return Ok(Some(Got::End { is_intact }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// How much data is still to come for the unit, while it is coming.
    pub(crate) fn data_left(&self) -> usize {
        if let State::Data { left } = self.state { left } else { 0 }
    }

    /// Notes data that the owner received by itself, past `next`.
    pub(crate) fn passed(&mut self, piece: &[u8]) {
        if let State::Data { left } = &mut self.state {
            *left -= piece.len();
        }
        if self.has_data_digest() {
            self.crc = crc32c::crc32c_append(self.crc, piece);
        }
    }

    /// Whether there is something to tell without another byte.
    fn is_due(&self) -> bool {
        self.state == State::Data { left: 0 } && !self.has_data_digest()
    }

    fn has_data_digest(&self) -> bool {
        self.digests.data && self.kind.is_digested()
    }

    fn gather(
        &mut self,
        input: &mut &[u8],
        have: usize,
        want: usize,
    ) -> Result<Option<Got<'static>>, Fault> {
        if have == 0 && self.take_whole(input) {
            return self.gathered().map(Some);
        }
        let piece = take(input, want - have);
        let have = have + piece.len();
        self.header[have - piece.len()..have].copy_from_slice(piece);
        self.seen = have;
        self.state = State::Header { have, want };
        if have < want {
            return Ok(None);
        }
        if want == COMMON {
            let want = self.check_common()?;
            self.state = State::Header { have, want };
            return Ok(None);
        }
        self.gathered().map(Some)
    }

    /// Takes a header that is there as a whole, as most are. One that is not, or is wrong, is left
    /// to be gathered, which tells what is wrong.
    fn take_whole(&mut self, input: &mut &[u8]) -> bool {
        let &[first, _, hlen, ..] = *input else { return false };
        let kind = Kind::from_byte(first).filter(|kind| self.listener.hears(*kind));
        let Some(kind) = kind.filter(|kind| kind.header_len() == hlen) else { return false };
        let digest = if kind.is_digested() { self.digests.header_len() } else { 0 };
        let want = usize::from(hlen) + digest;
        let Some((header, rest)) = input.split_at_checked(want) else { return false };
        self.header[..want].copy_from_slice(header);
        (self.kind, self.seen, *input) = (kind, want, rest);
        true
    }

    /// The header is here.
    fn gathered(&mut self) -> Result<Got<'static>, Fault> {
        self.check_digest()?;
        let data = self.check_lengths()?;
        Ok(Got::Header { kind: self.kind, data })
    }

    /// How long the header is, with its digest.
    fn check_common(&mut self) -> Result<usize, Fault> {
        let [kind, _, hlen, ..] = self.header;
        self.kind = Kind::from_byte(kind)
            .filter(|kind| self.listener.hears(*kind))
            .ok_or(Fault::field(0))?;
        if hlen != self.kind.header_len() {
            return Err(Fault::field(2));
        }
        Ok(usize::from(hlen) + self.header_digest_len())
    }

    fn header_digest_len(&self) -> usize {
        if self.kind.is_digested() { self.digests.header_len() } else { 0 }
    }

    fn check_digest(&self) -> Result<(), Fault> {
        if self.header_digest_len() == 0 {
            return Ok(());
        }
        let (header, digest) = self.header[..self.seen].split_at(self.seen - DIGEST);
        let digest = u32::read_from_bytes(digest).map_or(0, u32::from_le);
        if crc32c::crc32c(header) == digest {
            return Ok(());
        }
        Err(Fault { fes: Fes::HeaderDigest, fei: digest })
    }

    /// How much data follows; moves on to it.
    fn check_lengths(&mut self) -> Result<usize, Fault> {
        let Ok((common, _)) = Common::read_from_prefix(&self.header[..]) else {
            return Err(Fault::field(0));
        };
        let header = self.seen;
        let plen = usize::try_from(common.plen.get()).map_err(|_| Fault::field(4))?;
        if self.kind.is_digested() && (common.flags & HDGST != 0) != self.digests.header {
            return Err(Fault::field(1));
        }
        if plen == header && !matches!(self.kind, Kind::H2cData | Kind::C2hData) {
            self.state = FRESH;
            return Ok(0);
        }
        if plen < header || !self.kind.may_carry_data() {
            return Err(Fault::field(4));
        }
        if !self.kind.is_digested() {
            // A termination request has no offset of data and no digest.
            return match plen - header {
                0..=TERM_DATA_MAX => Ok(self.expect_data(0, plen - header)),
                _ => Err(Fault::field(4)),
            };
        }
        if (common.flags & DDGST != 0) != self.digests.data {
            return Err(Fault::field(1));
        }
        let pdo = usize::from(common.pdo);
        if pdo < header || !pdo.is_multiple_of(4) {
            return Err(Fault::field(3));
        }
        let data = plen.checked_sub(pdo + self.digests.data_len()).filter(|data| *data > 0);
        let data = data.ok_or(Fault::field(4))?;
        Ok(self.expect_data(pdo - header, data))
    }

    fn expect_data(&mut self, padding: usize, data: usize) -> usize {
        self.crc = 0;
        self.state = match padding {
            0 => State::Data { left: data },
            left => State::Padding { left, data },
        };
        data
    }
}

fn take<'a>(input: &mut &'a [u8], at_most: usize) -> &'a [u8] {
    let (piece, rest) = input.split_at(input.len().min(at_most));
    *input = rest;
    piece
}
