//! Commands of any content in capsules that are well made, with data inline or on request.
#![no_main]

use std::time::Duration;

use fuzz::{cut::Input, pair};
use libfuzzer_sys::fuzz_target;
use nvme::{
    Digests,
    wire::{
        command::{Sgl, Sqe},
        pdu::{CapsuleCmd, Common, Kind, LAST, Transfer},
    },
};
use zerocopy::{
    FromBytes, IntoBytes,
    little_endian::{U16, U32},
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let choice = input.byte();
    let mut pair = pair::pair(pair::kind(choice), Digests::NONE);
    let now = Duration::ZERO;
    for _ in 0..16 {
        if input.is_empty() {
            break;
        }
        let queue = u16::from(input.byte() & 1);
        let conn = pair.conns[&queue];
        let bytes = command(&mut input);
        pair.port.receive(now, conn, &bytes);
        for (conn, bytes) in pair::drain(&mut pair.port) {
            answer(&mut pair, conn, &bytes, &mut input);
        }
    }
    pair.port.closed(pair.conns[&0]);
    pair::drain(&mut pair.port);
    assert_eq!(pair.port.sessions().count(), 0, "whatever was said, it ends");
});

fn command(input: &mut Input<'_>) -> Vec<u8> {
    let mut sqe = Sqe::new(input.byte());
    sqe.flags = if input.byte() < 250 { Sqe::BY_SGL } else { input.byte() };
    sqe.cid = U16::new(input.byte().into());
    sqe.nsid = U32::new(input.byte().into());
    for word in &mut sqe.words {
        *word = U32::from_bytes(input.array());
    }
    let length = u32::from(u16::from_le_bytes(input.array()));
    let mut common = Common::bare(Kind::CapsuleCmd);
    let mut inline = Vec::new();
    if input.byte() & 1 == 0 {
        sqe.sgl = Sgl::transport(length * 4);
    } else {
        let length = length % 9000;
        sqe.sgl = Sgl::inline(length);
        inline.extend_from_slice(input.bytes(length as usize));
        inline.resize(length as usize, 0);
        if length > 0 {
            common.pdo = 72;
            common.plen = U32::new(72 + length);
        }
    }
    let mut bytes = CapsuleCmd { common, sqe }.as_bytes().to_vec();
    bytes.extend_from_slice(&inline);
    bytes
}

/// Gives the target the data that it asks for, mostly.
fn answer(pair: &mut pair::Pair, conn: nvme::target::ConnId, bytes: &[u8], input: &mut Input<'_>) {
    let mut rest = bytes;
    while let Ok((common, _)) = Common::read_from_prefix(rest) {
        let plen = common.plen.get() as usize;
        if common.kind == Kind::R2t.byte()
            && let Ok((request, _)) = Transfer::read_from_prefix(rest)
        {
            let length = request.length.get() - u32::from(input.byte() == 255);
            let mut header = request;
            header.common = Common {
                kind: Kind::H2cData.byte(),
                flags: LAST,
                hlen: 24,
                pdo: 24,
                plen: U32::new(24 + length),
            };
            header.length = U32::new(length);
            let mut unit = header.as_bytes().to_vec();
            unit.resize(24 + length as usize, input.byte());
            pair.port.receive(Duration::ZERO, conn, &unit);
            pair::drain(&mut pair.port);
        }
        let Some(after) = rest.get(plen..) else { break };
        rest = after;
    }
}
