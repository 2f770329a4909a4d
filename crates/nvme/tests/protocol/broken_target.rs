//! A target that breaks the rules ends the session; every operation is answered, none wrongly.

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use nvme::{
    Code, Digests, Op, Reply, Status,
    initiator::{Out, Reason, Session},
    wire::pdu::{CapsuleCmd, Fes, Kind, LAST, SUCCESS},
};
use zerocopy::FromBytes;

use crate::rig::{Rig, volume};

/// A live session with one operation sent, and the identifier of its command.
fn sent(op: Op) -> (Session, u16) {
    let mut rig = Rig::live(volume(), Digests::NONE, 1);
    rig.session.submit(rig.now, 1, 0, op);
    while let Some(out) = rig.session.poll() {
        if let Out::Send { queue: 1, outgoing } = out {
            let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
            let (capsule, _) = CapsuleCmd::read_from_prefix(&bytes).unwrap();
            return (rig.session, capsule.sqe.cid.get());
        }
    }
    panic!("nothing was sent");
}

fn unit(kind: Kind, flags: u8, fields: [u8; 16], data: usize) -> Vec<u8> {
    let plen = u32::try_from(24 + data).unwrap();
    let mut bytes = vec![kind.byte(), flags, 24, if data > 0 { 24 } else { 0 }];
    bytes.extend_from_slice(&plen.to_le_bytes());
    bytes.extend_from_slice(&fields);
    bytes.resize(24 + data, 0xee);
    bytes
}

/// The fields of data units and requests for data.
fn transfer(cid: u16, ttag: u16, offset: u32, length: u32) -> [u8; 16] {
    let mut fields = [0; 16];
    fields[..2].copy_from_slice(&cid.to_le_bytes());
    fields[2..4].copy_from_slice(&ttag.to_le_bytes());
    fields[4..8].copy_from_slice(&offset.to_le_bytes());
    fields[8..12].copy_from_slice(&length.to_le_bytes());
    fields
}

fn completion(cid: u16) -> Vec<u8> {
    let mut fields = [0; 16];
    fields[12..14].copy_from_slice(&cid.to_le_bytes());
    unit(Kind::CapsuleResp, 0, fields, 0)
}

fn read() -> Op {
    Op::Read { extent: Extent::new(0, 2) }
}

fn write() -> Op {
    Op::Write { extent: Extent::new(0, 16), data: Buffer::zeroed(16 * BLOCK), durability: Volatile }
}

/// What came of the operation, and why the session ended if it did.
fn outcome(session: &mut Session) -> (Result<Reply, Status>, Option<Reason>) {
    let (mut result, mut dead) = (None, None);
    while let Some(out) = session.poll() {
        match out {
            Out::Done { tag: 0, result: done } => {
                assert!(result.replace(done).is_none(), "answered once");
            }
            Out::Dead { reason } => dead = Some(reason),
            _ => {}
        }
    }
    (result.expect("every operation is answered"), dead)
}

/// What is done, what is answered to its command, and what we complain of.
type Case = (&'static str, Op, Box<dyn Fn(u16) -> Vec<u8>>, Fes);

#[test]
fn each_broken_rule_of_a_target_ends_the_session() {
    let page = u32::try_from(BLOCK).unwrap();
    let half = move |cid| unit(Kind::C2hData, LAST | SUCCESS, transfer(cid, 0, 0, page), BLOCK);
    let request = |cid, offset, length| unit(Kind::R2t, 0, transfer(cid, 1, offset, length), 0);
    let cases: Vec<Case> = vec![
        ("answer to nothing", read(), Box::new(|cid| completion(cid + 1)), Fes::InvalidField),
        ("no such command", read(), Box::new(|_| completion(u16::MAX)), Fes::InvalidField),
        ("done without the data", write(), Box::new(completion), Fes::Sequence),
        ("data of a write", write(), Box::new(half), Fes::InvalidField),
        ("request of a read", read(), Box::new(move |c| request(c, 0, page)), Fes::InvalidField),
        (
            "request too far",
            write(),
            Box::new(move |c| request(c, page, 16 * page)),
            Fes::OutOfRange,
        ),
        ("request for nothing", write(), Box::new(move |c| request(c, 0, 0)), Fes::OutOfRange),
        (
            "the same twice",
            write(),
            Box::new(move |c| [request(c, 0, 16 * page), request(c, 0, page)].concat()),
            Fes::LimitExceeded,
        ),
        (
            "data too far",
            read(),
            Box::new(move |c| unit(Kind::C2hData, LAST, transfer(c, 0, page, 2 * page), 2 * BLOCK)),
            Fes::OutOfRange,
        ),
        (
            "a gap",
            read(),
            Box::new(move |c| unit(Kind::C2hData, LAST, transfer(c, 0, page, page), BLOCK)),
            Fes::InvalidField,
        ),
        (
            "success before the last",
            read(),
            Box::new(move |c| unit(Kind::C2hData, SUCCESS, transfer(c, 0, 0, page), BLOCK)),
            Fes::InvalidField,
        ),
    ];
    for (name, op, bytes, fes) in cases {
        let (mut session, cid) = sent(op);
        session.receive(std::time::Duration::ZERO, 1, &bytes(cid));
        let (result, dead) = outcome(&mut session);
        assert_eq!(result.unwrap_err().code, Code::HostPath, "{name}");
        assert_eq!(dead, Some(Reason::Protocol { queue: 1, fes: fes.number() }), "{name}");
    }
}

#[test]
fn a_read_that_came_in_part_is_no_read() {
    let page = u32::try_from(BLOCK).unwrap();
    let (mut session, cid) = sent(read());
    let part = unit(Kind::C2hData, LAST | SUCCESS, transfer(cid, 0, 0, page), BLOCK);
    session.receive(std::time::Duration::ZERO, 1, &part);
    let (result, dead) = outcome(&mut session);
    assert_eq!(result.unwrap_err().code, Code::DataTransferError);
    assert_eq!(dead, None);
}

#[test]
fn a_target_that_complains_is_believed() {
    let (mut session, _) = sent(write());
    let mut fields = [0; 16];
    fields[0] = 4;
    session.receive(std::time::Duration::ZERO, 1, &unit(Kind::C2hTermReq, 0, fields, 0));
    let (result, dead) = outcome(&mut session);
    assert_eq!(result.unwrap_err().code, Code::HostPath);
    assert_eq!(dead, Some(Reason::Terminated { queue: 1, fes: 4 }));
}
