//! Reservations over the wire, of two hosts.

use nvme::{
    Code, Status,
    reservation::Reservations,
    target::{ConnId, Hosts, Kind, Port},
    wire::{
        command::{Sqe, admin, fabrics, io},
        fabrics::{ANY_CONTROLLER, ConnectData},
    },
};
use zerocopy::IntoBytes;

use crate::{
    rig::{NQN, subsystem, volume},
    script::{Bench, capsule, connect, ended},
};

struct Host {
    admin: ConnId,
    io: ConnId,
}

fn host(bench: &mut Bench, number: u8) -> Host {
    let data = |cntlid| ConnectData::new([number; 16], cntlid, NQN, "nqn.any");
    let admin = bench.hello();
    let ended = bench.command(admin, connect(0, 31), data(ANY_CONTROLLER).as_bytes()).unwrap();
    let cntlid = u16::try_from(ended.cqe.value()).unwrap();
    let enable = Sqe::fabrics(fabrics::PROPERTY_SET).words([0, 0x14, 0x0046_0001]);
    bench.command(admin, enable, &[]).unwrap();
    let io = bench.hello();
    let ended = bench.command(io, connect(1, 31), data(cntlid).as_bytes()).unwrap();
    assert_eq!(ended.status(), None);
    Host { admin, io }
}

fn two_hosts() -> (Bench, Host, Host) {
    two_hosts_of(volume())
}

fn two_hosts_of(kind: Kind) -> (Bench, Host, Host) {
    let mut port = Port::new(Vec::new());
    let mut any = subsystem(kind);
    any.hosts = Hosts::Any;
    port.add_subsystem(any).unwrap();
    let mut bench = Bench::of(port);
    let (a, b) = (host(&mut bench, 1), host(&mut bench, 2));
    (bench, a, b)
}

fn keys(current: u64, other: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&current.to_le_bytes());
    bytes[8..].copy_from_slice(&other.to_le_bytes());
    bytes
}

fn register(persist: u32) -> Sqe {
    Sqe::new(io::RESERVATION_REGISTER).nsid(1).words([persist << 30])
}

fn acquire(action: u32, kind: u32) -> Sqe {
    Sqe::new(io::RESERVATION_ACQUIRE).nsid(1).words([action | kind << 8])
}

fn code(status: Option<Status>) -> Option<Code> {
    status.map(|status| status.code)
}

fn write(bench: &mut Bench, host: &Host) -> Option<Code> {
    let sqe = Sqe::new(io::WRITE).nsid(1).words([0, 0, 0]);
    code(bench.command(host.io, sqe, &[1; 4096]).unwrap().status())
}

#[test]
fn a_reservation_keeps_the_other_host_out_until_it_preempts() {
    let (mut bench, a, b) = two_hosts();
    assert_eq!(bench.command(a.io, register(3), &keys(0, 10)).unwrap().status(), None);
    assert_eq!(bench.command(b.io, register(0), &keys(0, 20)).unwrap().status(), None);
    assert_eq!(bench.command(a.io, acquire(0, 2), &keys(10, 0)).unwrap().status(), None);
    assert_eq!(write(&mut bench, &a), None);
    assert_eq!(write(&mut bench, &b), Some(Code::ReservationConflict));

    let report = Sqe::new(io::RESERVATION_REPORT).nsid(1).words([255, 1]);
    let page = bench.ask(b.io, report, 1024).data;
    assert_eq!((page[0], page[4], page[5], page[9]), (2, 2, 2, 1));
    assert_eq!((page[64 + 2], page[64 + 8], page[64 + 16]), (1, 10, 1));
    assert_eq!((page[128 + 2], page[128 + 8], page[128 + 16]), (0, 20, 2));
    let short = Sqe::new(io::RESERVATION_REPORT).nsid(1).words([255, 0]);
    assert_eq!(code(bench.ask(b.io, short, 1024).status()), Some(Code::HostIdInconsistent));

    // The victim is told, by an event and its log.
    let cid = bench.cid();
    bench.send(a.admin, &capsule(Sqe::new(admin::ASYNC_EVENT), cid, &[]));
    assert_eq!(bench.command(b.io, acquire(1, 2), &keys(20, 10)).unwrap().status(), None);
    assert_eq!(ended(&bench.heard(a.admin), cid).unwrap().cqe.value(), 0x80_00_06);
    let log = Sqe::new(admin::GET_LOG_PAGE).nsid(1).words([0x80 | 15 << 16]);
    let page = bench.ask(a.admin, log, 64).data;
    assert_eq!((page[0], page[8], page[9], page[12]), (1, 1, 0, 1));
    assert_eq!(write(&mut bench, &a), Some(Code::ReservationConflict));
    assert_eq!(write(&mut bench, &b), None);

    let kept = bench.disk.persisted.last().unwrap();
    assert!(kept.persists());
    assert_eq!(kept.key_of(&[1; 16]), None);
    assert_eq!(Reservations::from_bytes(&kept.to_bytes()).as_ref(), Some(kept));
}

#[test]
fn a_change_counts_only_when_it_is_durable_and_others_wait_their_turn() {
    let (mut bench, a, b) = two_hosts();
    bench.is_held = true;
    let (first, second) = (bench.cid(), bench.cid());
    bench.send(a.io, &capsule(register(0), first, &keys(0, 10)));
    bench.send(b.io, &capsule(register(0), second, &keys(0, 20)));
    assert_eq!(bench.held.len(), 1, "one at a time");
    assert!(bench.heard(a.io).is_empty());
    bench.release(0).unwrap();
    assert_eq!(ended(&bench.heard(a.io), first).unwrap().status(), None);
    assert!(bench.heard(b.io).is_empty());
    bench.release(0).unwrap();
    assert_eq!(ended(&bench.heard(b.io), second).unwrap().status(), None);

    // One that could not be made durable has not happened.
    let third = bench.cid();
    bench.send(a.io, &capsule(acquire(0, 2), third, &keys(10, 0)));
    let request = bench.held.remove(0);
    bench.port.complete(request.tag, Err(Code::InternalError.into()));
    bench.drain();
    let failed = ended(&bench.heard(a.io), third).unwrap().status();
    assert_eq!(code(failed), Some(Code::InternalError));
    bench.is_held = false;
    assert_eq!(write(&mut bench, &b), None);
}

#[test]
fn preempt_and_abort_waits_for_the_victims_commands() {
    let (mut bench, a, b) = two_hosts();
    bench.command(a.io, register(0), &keys(0, 10)).unwrap();
    bench.command(b.io, register(0), &keys(0, 20)).unwrap();
    bench.command(a.io, acquire(0, 2), &keys(10, 0)).unwrap();
    bench.is_held = true;
    let (late, preempt) = (bench.cid(), bench.cid());
    let sqe = Sqe::new(io::WRITE).nsid(1).words([0, 0, 0]);
    bench.send(a.io, &capsule(sqe, late, &[1; 4096]));
    bench.send(b.io, &capsule(acquire(2, 2), preempt, &keys(20, 10)));
    assert_eq!(bench.held.len(), 2);
    bench.release(1).unwrap();
    assert!(bench.heard(b.io).is_empty(), "the victim's write is still under way");
    bench.release(0).unwrap();
    assert_eq!(ended(&bench.heard(a.io), late).unwrap().status(), None);
    assert_eq!(ended(&bench.heard(b.io), preempt).unwrap().status(), None);
    bench.is_held = false;
    assert_eq!(write(&mut bench, &a), Some(Code::ReservationConflict));
}

#[test]
fn what_cannot_last_is_neither_offered_nor_promised() {
    let identify = Sqe::new(admin::IDENTIFY).nsid(1).words([0]);
    let (mut bench, a, _) = two_hosts();
    assert_eq!(bench.ask(a.admin, identify, 4096).data[31], 0xff);

    let kind = Kind::Volume { reservations: Reservations::new(), can_last: false };
    let (mut bench, a, b) = two_hosts_of(kind);
    assert_eq!(bench.ask(a.admin, identify, 4096).data[31], 0xfe);
    let refused = bench.command(a.io, register(3), &keys(0, 10)).unwrap().status();
    assert_eq!(code(refused), Some(Code::InvalidField));
    // Nothing came of it, and what ends with the target is served.
    assert_eq!(bench.command(a.io, register(2), &keys(0, 10)).unwrap().status(), None);
    assert_eq!(bench.command(a.io, acquire(0, 1), &keys(10, 0)).unwrap().status(), None);
    assert_eq!(write(&mut bench, &b), Some(Code::ReservationConflict));
    let persistence = Sqe::new(admin::GET_FEATURES).nsid(1).words([0x83]);
    assert_eq!(bench.command(a.admin, persistence, &[]).unwrap().cqe.value(), 0);
}
