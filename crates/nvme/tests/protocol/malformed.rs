//! What breaks the rules of the transport ends the connection, and the host is told why.

use nvme::{
    Code,
    wire::{
        command::{Sgl, Sqe, admin, io},
        pdu::{Common, Fes, IcReq, Kind, LAST, Transfer},
    },
};
use zerocopy::{
    FromZeros, IntoBytes,
    little_endian::{U16, U32},
};

use crate::script::{Bench, capsule, complaint};

/// Where in its life a connection is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Fresh,
    Greeted,
    Io,
    /// An I/O queue that was asked for 64 KiB by a request for data with tag 0.
    Asked,
}

fn at(bench: &mut Bench, stage: Stage) -> (nvme::target::ConnId, u16) {
    match stage {
        Stage::Fresh => (bench.accept(), 0),
        Stage::Greeted => (bench.hello(), 0),
        Stage::Io => (bench.io(), 0),
        Stage::Asked => {
            let conn = bench.io();
            let cid = bench.cid();
            let sqe = Sqe { sgl: Sgl::transport(65536), ..write(0, 16) };
            bench.send(conn, &capsule(sqe, cid, &[]));
            let heard = bench.heard(conn);
            assert_eq!(heard[0].kind, Kind::R2t);
            (conn, cid)
        }
    }
}

fn write(start: u32, blocks: u32) -> Sqe {
    Sqe::new(io::WRITE).nsid(1).words([start, 0, blocks - 1])
}

fn with(mut bytes: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    bytes[at] = value;
    bytes
}

fn data(cid: u16, ttag: u16, offset: u32, length: u32, flags: u8, carried: u32) -> Vec<u8> {
    let common = Common {
        kind: Kind::H2cData.byte(),
        flags,
        hlen: 24,
        pdo: 24,
        plen: U32::new(24 + carried),
    };
    let (cid, ttag) = (U16::new(cid), U16::new(ttag));
    let (offset, length) = (U32::new(offset), U32::new(length));
    let header = Transfer { common, cid, ttag, offset, length, reserved: [0; 4] };
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(bytes.len() + usize::try_from(carried).unwrap(), 7);
    bytes
}

/// What is sent, given the identifier of the open command, and what the target complains of.
struct Case {
    name: &'static str,
    stage: Stage,
    bytes: Box<dyn Fn(u16) -> Vec<u8>>,
    complaint: (Fes, u32),
}

fn case(
    name: &'static str,
    stage: Stage,
    bytes: impl Fn(u16) -> Vec<u8> + 'static,
    fes: Fes,
    fei: u32,
) -> Case {
    Case { name, stage, bytes: Box::new(bytes), complaint: (fes, fei) }
}

fn hello() -> Vec<u8> {
    IcReq::new(0, 0).as_bytes().to_vec()
}

fn command() -> Vec<u8> {
    capsule(Sqe::new(admin::KEEP_ALIVE), 0, &[])
}

fn inline(bytes: usize) -> Vec<u8> {
    capsule(write(0, 1), 0, &vec![1; bytes])
}

fn broken_hellos() -> Vec<Case> {
    use Fes::{InvalidField, Sequence};
    use Stage::{Fresh, Greeted};
    vec![
        case("unknown kind", Fresh, |_| with(hello(), 0, 8), InvalidField, 0),
        case("the target's own kind", Greeted, |_| with(command(), 0, 5), InvalidField, 0),
        case("header length", Fresh, |_| with(hello(), 2, 127), InvalidField, 2),
        case("unit length", Fresh, |_| with(hello(), 4, 129), InvalidField, 4),
        case("format version", Fresh, |_| with(hello(), 8, 1), InvalidField, 8),
        case("alignment", Fresh, |_| with(hello(), 10, 32), InvalidField, 10),
        case("command before hello", Fresh, |_| command(), Sequence, 0),
        case("second hello", Greeted, |_| hello(), Sequence, 0),
    ]
}

fn broken_capsules() -> Vec<Case> {
    use Fes::{InvalidField, LimitExceeded};
    use Stage::{Greeted, Io};
    vec![
        case("header length", Greeted, |_| with(command(), 2, 71), InvalidField, 2),
        case("short capsule", Greeted, |_| with(command(), 4, 71), InvalidField, 4),
        case("digest not agreed on", Greeted, |_| with(command(), 1, 1), InvalidField, 1),
        case("data digest not agreed on", Io, |_| with(inline(64), 1, 2), InvalidField, 1),
        case("data within the header", Io, |_| with(inline(64), 3, 68), InvalidField, 3),
        case("crooked data", Io, |_| with(inline(64), 3, 73), InvalidField, 3),
        case("data after the end", Io, |_| with(inline(8), 3, 100), InvalidField, 4),
        case("too much in a capsule", Io, |_| inline(16385), LimitExceeded, 0),
        case("too much for admin", Greeted, |_| inline(8193), LimitExceeded, 0),
        case("endless capsule", Io, |_| with(inline(64), 7, 0xff), LimitExceeded, 0),
    ]
}

fn broken_data() -> Vec<Case> {
    use Fes::{InvalidField, OutOfRange};
    use Stage::{Asked, Io};
    let all = 65536;
    vec![
        case("nobody asked", Io, |_| data(0, 0, 0, 8, LAST, 8), InvalidField, 10),
        case("wrong tag", Asked, move |c| data(c, 9, 0, all, LAST, all), InvalidField, 10),
        case("wrong command", Asked, move |c| data(c + 1, 0, 0, all, LAST, all), InvalidField, 8),
        case("lengths", Asked, move |c| data(c, 0, 0, all, LAST, all - 4), InvalidField, 16),
        case("beyond the end", Asked, move |c| data(c, 0, 4, all, LAST, all), OutOfRange, 12),
        case("a gap", Asked, |c| data(c, 0, 4096, 4096, 0, 4096), OutOfRange, 12),
        case("last too early", Asked, |c| data(c, 0, 0, 4096, LAST, 4096), InvalidField, 1),
        case("no last", Asked, move |c| data(c, 0, 0, all, 0, all), InvalidField, 1),
        case("no data at all", Asked, |c| data(c, 0, 0, 0, 0, 0), InvalidField, 4),
    ]
}

#[test]
fn each_broken_rule_is_named() {
    let cases = [broken_hellos(), broken_capsules(), broken_data()];
    for Case { name, stage, bytes, complaint: (fes, fei) } in cases.into_iter().flatten() {
        let mut bench = Bench::new();
        let (conn, cid) = at(&mut bench, stage);
        let bytes = bytes(cid);
        bench.send(conn, &bytes);
        let heard = bench.heard(conn);
        assert_eq!(heard.len(), 1, "{name}: {heard:?}");
        assert_eq!(complaint(&heard[0]), (fes.number(), fei), "{name}");
        assert!(heard[0].data.len() <= 128 && bytes.starts_with(&heard[0].data), "{name}");
        assert_eq!(bench.closed, [conn], "{name}");
    }
}

#[test]
fn more_commands_than_entries_end_the_connection() {
    let mut bench = Bench::new();
    let conn = bench.io();
    bench.is_held = true;
    for cid in 0..32 {
        bench.send(conn, &capsule(Sqe::new(io::FLUSH).nsid(1), cid, &[]));
    }
    assert!(bench.heard(conn).is_empty());
    bench.send(conn, &capsule(Sqe::new(io::FLUSH).nsid(1), 32, &[]));
    assert_eq!(complaint(&bench.heard(conn)[0]), (Fes::Sequence.number(), 0));
    // Those under way are still owed an answer, which goes nowhere.
    assert_eq!(bench.held.len(), 32);
    while !bench.held.is_empty() {
        bench.release(0).unwrap();
    }
    assert!(bench.heard(conn).is_empty());
}

#[test]
fn a_termination_by_the_host_is_obeyed_without_a_word() {
    let mut bench = Bench::new();
    let conn = bench.io();
    let mut term = nvme::wire::pdu::TermReq::new_zeroed();
    term.common = Common::bare(Kind::H2cTermReq);
    bench.send(conn, term.as_bytes());
    assert!(bench.heard(conn).is_empty());
    assert_eq!(bench.closed, [conn]);
}

#[test]
fn wrong_commands_fail_and_leave_the_connection_alone() {
    let mut bench = Bench::new();
    let conn = bench.io();
    let page = [1; 4096];
    let flagged = |flags| Sqe { flags, ..write(0, 1) };
    let described = |sgl| Sqe { sgl, ..write(0, 1) };
    let read = |sgl| Sqe { sgl, ..Sqe::new(io::READ).nsid(1) };
    let cases: Vec<(&str, Sqe, &[u8], Code)> = vec![
        ("fused", flagged(0x41), &page, Code::InvalidField),
        ("by pages", flagged(0), &page, Code::InvalidField),
        ("other namespace", write(0, 1).nsid(2), &page, Code::InvalidNamespace),
        ("no namespace", write(0, 1).nsid(0), &page, Code::InvalidNamespace),
        ("less data than blocks", write(0, 2), &page, Code::SglLengthInvalid),
        ("more data than blocks", write(0, 1), &[1; 8192], Code::SglLengthInvalid),
        ("no data", described(Sgl::inline(4096)), &[], Code::SglLengthInvalid),
        (
            "unknown place",
            described(Sgl { id: 0x40, ..Sgl::inline(4096) }),
            &[],
            Code::SglTypeInvalid,
        ),
        ("beyond the end", write(1024, 1), &page, Code::LbaOutOfRange),
        (
            "too long",
            Sqe { sgl: Sgl::transport(1 << 21), ..write(0, 512) },
            &[],
            Code::InvalidField,
        ),
        ("unknown", Sqe::new(0x7d).nsid(1), &[], Code::InvalidOpcode),
        ("read into a capsule", read(Sgl::inline(4096)), &[], Code::SglTypeInvalid),
        ("read into too little", read(Sgl::transport(512)), &[], Code::SglLengthInvalid),
        ("read into too much", read(Sgl::transport(8192)), &[], Code::SglLengthInvalid),
    ];
    for (name, sqe, inline, code) in cases {
        let ended = bench.command(conn, sqe, inline).expect(name);
        let status = ended.status().expect(name);
        assert_eq!((status.code, status.is_final), (code, true), "{name}");
    }
    assert!(bench.closed.is_empty());
    assert_eq!(bench.command(conn, write(0, 1), &page).unwrap().status(), None);
    assert_eq!(bench.disk.bytes[..4096], page);
}

#[test]
fn a_command_identifier_in_use_is_refused() {
    let mut bench = Bench::new();
    let conn = bench.io();
    bench.is_held = true;
    let flush = capsule(Sqe::new(io::FLUSH).nsid(1), 77, &[]);
    bench.send(conn, &flush);
    bench.send(conn, &flush);
    let ended = crate::script::ended(&bench.heard(conn), 77).unwrap();
    assert_eq!(ended.status().unwrap().code, Code::CommandIdConflict);
    bench.release(0).unwrap();
    assert_eq!(crate::script::ended(&bench.heard(conn), 77).unwrap().status(), None);
    bench.is_held = false;
    bench.send(conn, &flush);
    assert_eq!(crate::script::ended(&bench.heard(conn), 77).unwrap().status(), None);
}
