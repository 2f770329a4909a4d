//! Any bytes to an initiator: while it attaches, or in well-made headers while operations are
//! under way.
#![no_main]

use std::time::Duration;

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use fuzz::{cut::Input, pair};
use libfuzzer_sys::fuzz_target;
use nvme::{
    Digests, Op, Reply,
    initiator::{Out, Session},
    wire::pdu::Kind,
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let choice = input.byte();
    let now = Duration::ZERO;
    let mut session = pair::pair(pair::kind(choice), Digests::NONE).session;
    for tag in 0..8u64 {
        session.submit(now, 1, tag, op(tag));
    }
    let mut done = 0;
    while !input.is_empty() {
        let queue = u16::from(input.byte() & 1);
        let bytes = if choice & 2 == 0 { input.bytes(200).to_vec() } else { unit(&mut input) };
        session.receive(now, queue, &bytes);
        done += drain(&mut session);
    }
    session.stop();
    done += drain(&mut session);
    assert_eq!(done, 8, "every operation ends once");
});

fn op(tag: u64) -> Op {
    let extent = Extent::new(tag, 8);
    match tag % 3 {
        0 => Op::Read { extent },
        1 => Op::Write { extent, data: Buffer::zeroed(8 * BLOCK), durability: Volatile },
        _ => Op::Flush,
    }
}

fn drain(session: &mut Session) -> usize {
    let mut done = 0;
    while let Some(out) = session.poll() {
        if let Out::Done { tag, result } = out {
            done += 1;
            match result {
                Ok(Reply::Data(data)) => assert!(tag % 3 == 0 && data.len() == 8 * BLOCK),
                Ok(Reply::Done) => assert_ne!(tag % 3, 0, "a read without its data"),
                Err(_) => {}
            }
        }
    }
    done
}

/// A unit whose lengths are right, whatever else it says.
fn unit(input: &mut Input<'_>) -> Vec<u8> {
    let kinds = [Kind::CapsuleResp, Kind::C2hData, Kind::R2t, Kind::C2hTermReq];
    let kind = kinds[usize::from(input.byte() & 3)];
    let flags = if kind == Kind::C2hData { input.byte() & 0xc } else { 0 };
    let data = if kind == Kind::C2hData {
        usize::from(u16::from_le_bytes(input.array())) % (8 * BLOCK) + 1
    } else {
        0
    };
    let plen = u32::try_from(24 + data).expect("small");
    let mut unit = vec![kind.byte(), flags, 24, if data > 0 { 24 } else { 0 }];
    unit.extend_from_slice(&plen.to_le_bytes());
    unit.extend_from_slice(&input.array::<16>());
    if data > 0 {
        unit[16..20].copy_from_slice(&u32::try_from(data).expect("small").to_le_bytes());
    }
    unit.resize(24 + data, 0);
    unit
}
