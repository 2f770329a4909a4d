//! What a Linux host does from connecting to leaving, with the checks that it makes.

use std::time::Duration;

use nvme::{
    Code,
    target::{Hosts, Port},
    wire::{
        command::{Sgl, Sqe, admin, fabrics, io},
        fabrics::{ANY_CONTROLLER, ConnectData, DISCOVERY_NQN},
        identify::{IdentifyController, IdentifyNamespace, descriptors},
        log::{Ana, DiscoveryHeader, DiscoveryRecord},
        pdu::{IcReq, IcResp, Kind},
    },
};
use zerocopy::{FromBytes, IntoBytes};

use crate::{
    rig::{BLOCKS, HOST, NQN, subsystem, volume},
    script::{Bench, capsule, connect, ended},
};

fn identify(what: u32, nsid: u32) -> Sqe {
    Sqe::new(admin::IDENTIFY).nsid(nsid).words([what])
}

fn log(what: u32, bytes: u32) -> Sqe {
    Sqe::new(admin::GET_LOG_PAGE).nsid(0xffff_ffff).words([what | (bytes / 4 - 1) << 16])
}

fn property(offset: u32, size: u32) -> Sqe {
    Sqe::fabrics(fabrics::PROPERTY_GET).words([size, offset])
}

fn feature(what: u32, value: u32) -> Sqe {
    Sqe::new(admin::SET_FEATURES).words([what, value])
}

/// The bytes of a page as text of two columns: where, and what is not zero there.
fn nonzero(page: &[u8]) -> String {
    let rows = page.chunks(16).enumerate().filter(|(_, row)| row.iter().any(|byte| *byte != 0));
    let lines = rows.map(|(at, row)| {
        let bytes: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:4} {}\n", at * 16, bytes.join(" "))
    });
    lines.collect::<Vec<_>>().concat()
}

#[test]
fn the_whole_sequence_of_a_linux_host_works() {
    let mut bench = Bench::new();
    let admin_conn = bench.accept();
    bench.send(admin_conn, IcReq::new(0, 0).as_bytes());
    let answer = bench.heard(admin_conn).remove(0);
    let icresp = IcResp::read_from_bytes(&answer.header).unwrap();
    assert_eq!((icresp.pfv.get(), icresp.cpda, icresp.digests), (0, 0, 0));
    assert!(icresp.maxh2cdata.get() >= 4096 && icresp.maxh2cdata.get().is_multiple_of(4));

    let ended = bench.connect(admin_conn, 0, ANY_CONTROLLER);
    assert_eq!(ended.status(), None);
    assert_eq!(ended.cqe.sqhd.get(), 0xffff, "no flow control, as it was asked for");
    let cntlid = u16::try_from(ended.cqe.value()).unwrap();

    let cap = bench.command(admin_conn, property(0, 1), &[]).unwrap().cqe.result.get();
    assert_eq!(cap & 0xffff, 127, "entries less one");
    assert_ne!(cap & 1 << 16, 0, "contiguous queues are required");
    assert_ne!(cap & 1 << 37, 0, "the NVM command set");
    assert_eq!(bench.command(admin_conn, property(8, 0), &[]).unwrap().cqe.value(), 0x10400);
    let csts =
        |bench: &mut Bench| bench.command(admin_conn, property(0x1c, 0), &[]).unwrap().cqe.value();
    assert_eq!(csts(&mut bench), 0);
    let early = bench.ask(admin_conn, identify(1, 0), 4096);
    assert_eq!(early.status().unwrap().code, Code::CommandSequence);
    let enable = Sqe::fabrics(fabrics::PROPERTY_SET).words([0, 0x14, 0x0046_0001]);
    assert_eq!(bench.command(admin_conn, enable, &[]).unwrap().status(), None);
    assert_eq!(csts(&mut bench), 1);

    check_controller(&mut bench, admin_conn, cntlid);
    let ana = bench.ask(admin_conn, log(0x0c, 52), 52).data;
    assert_eq!(&ana[..10], &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!((ana[16], ana[20], ana[32], ana[48]), (1, 1, 1, 1));
    let queues = bench.command(admin_conn, feature(7, 3 | 3 << 16), &[]).unwrap();
    assert_eq!(queues.cqe.value(), 3 | 3 << 16);
    let events = bench.command(admin_conn, feature(0x0b, 0x900), &[]).unwrap();
    assert_eq!(events.status(), None);
    assert!(bench.command(admin_conn, Sqe::new(admin::ASYNC_EVENT), &[]).is_none());
    let alive = bench.command(admin_conn, Sqe::new(admin::KEEP_ALIVE), &[]).unwrap();
    assert_eq!(alive.status(), None);

    let io_conn = bench.hello();
    assert_eq!(bench.connect(io_conn, 1, cntlid).status(), None);
    check_namespace(&mut bench, admin_conn);

    let page = [0xab; 4096];
    let write = Sqe::new(io::WRITE).nsid(1).words([3, 0, 0]);
    assert_eq!(bench.command(io_conn, write, &page).unwrap().status(), None);
    let read = bench.ask(io_conn, Sqe::new(io::READ).nsid(1).words([3, 0, 0]), 4096);
    assert_eq!(read.data, page);
    // Linux sends a whole page of ranges, whatever their number.
    let mut ranges = [0; 4096];
    ranges[4] = 1;
    ranges[8] = 3;
    let trim = Sqe::new(io::DATASET).nsid(1).words([0, 4]);
    assert_eq!(bench.command(io_conn, trim, &ranges).unwrap().status(), None);
    assert!(bench.disk.bytes.iter().all(|byte| *byte == 0));

    let shutdown = Sqe::fabrics(fabrics::PROPERTY_SET).words([0, 0x14, 0x0046_4001]);
    assert_eq!(bench.command(admin_conn, shutdown, &[]).unwrap().status(), None);
    assert_eq!(csts(&mut bench) & 0xc, 8, "shutdown is complete");
    bench.port.closed(io_conn);
    bench.port.closed(admin_conn);
    assert_eq!(bench.port.sessions().count(), 0);
}

fn check_controller(bench: &mut Bench, conn: nvme::target::ConnId, cntlid: u16) {
    let page = bench.ask(conn, identify(1, 0), 4096);
    let id = IdentifyController::read_from_bytes(&page.data).unwrap();
    assert_eq!(id.cntlid.get(), cntlid);
    assert!(id.kas.get() != 0 && id.maxcmd.get() != 0);
    assert!(id.ioccsz.get() >= 4 && id.iorcsz.get() >= 1 && id.icdoff.get() == 0);
    assert_ne!(id.sgls.get() & 3, 0);
    assert!(id.mnan.get() != 0 && id.mnan.get() <= id.nn.get());
    assert!(id.anagrpmax.get() != 0 && id.nanagrpid.get() != 0 && id.anatt != 0);
    assert_eq!(id.cmic & 0b1010, 0b1010);
    assert_eq!(id.vwc & 1, 1, "or Linux never flushes");
    assert_eq!(
        nonzero(&page.data),
        "   0 00 00 00 00 30 30 30 31 20 20 20 20 20 20 20 20
  16 20 20 20 20 20 20 20 20 48 6f 6c 64 66 61 73 74
  32 20 20 20 20 20 20 20 20 20 20 20 20 20 20 20 20
  48 20 20 20 20 20 20 20 20 20 20 20 20 20 20 20 20
  64 31 20 20 20 20 20 20 20 00 00 00 00 0a 08 64 00
  80 00 04 01 00 00 00 00 00 00 00 00 00 00 09 00 00
  96 41 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
 256 00 00 03 03 03 06 00 00 00 00 00 00 00 00 00 00
 320 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
 336 00 00 00 00 00 00 0a 5f 01 00 00 00 01 00 00 00
 512 66 44 80 00 01 00 00 00 ad 00 00 00 00 05 00 00
 528 00 00 00 00 00 00 00 00 01 00 30 00 01 00 00 00
 768 6e 71 6e 2e 32 30 32 36 2d 30 31 2e 69 6f 2e 68
 784 6f 6c 64 66 61 73 74 3a 76 6f 6c 75 6d 65 00 00
1792 04 04 00 00 01 00 00 00 00 00 00 01 01 00 00 00
"
    );
}

fn check_namespace(bench: &mut Bench, conn: nvme::target::ConnId) {
    let list = bench.ask(conn, identify(2, 0), 4096).data;
    assert_eq!(&list[..8], &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(bench.ask(conn, identify(2, 1), 4096).data.iter().all(|byte| *byte == 0));
    let ids = bench.ask(conn, identify(3, 1), 4096).data;
    let ids: Vec<(u8, &[u8])> = descriptors(&ids).collect();
    let uuid = 0x1234u128.to_be_bytes();
    assert_eq!(ids, [(2, &[7; 16][..]), (3, &uuid[..])]);
    let page = bench.ask(conn, identify(0, 1), 4096).data;
    let id = IdentifyNamespace::read_from_bytes(&page[..]).unwrap();
    assert_eq!((id.nsze.get(), id.nmic & 1, id.formats[0].lbads), (BLOCKS, 1, 12));
    assert_eq!(
        nonzero(&page),
        "   0 00 04 00 00 00 00 00 00 00 04 00 00 00 00 00 00
  16 00 04 00 00 00 00 00 00 11 00 00 00 00 00 01 ff
  32 00 09 00 00 00 00 00 00 00 00 00 00 00 00 00 00
  48 00 00 40 00 00 00 00 00 00 00 00 00 00 00 00 00
  80 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00
  96 00 00 00 00 00 00 00 00 07 07 07 07 07 07 07 07
 112 07 07 07 07 07 07 07 07 00 00 00 00 00 00 00 00
 128 00 00 0c 00 00 00 00 00 00 00 00 00 00 00 00 00
"
    );
    for what in [5, 6, 8, 0x1c] {
        let status = bench.ask(conn, identify(what, 1), 4096).status().unwrap();
        assert_eq!((status.code, status.is_final), (Code::InvalidField, true));
    }
    assert_eq!(
        bench.ask(conn, identify(0, 2), 4096).status().unwrap().code,
        Code::InvalidNamespace
    );
    assert_eq!(bench.ask(conn, identify(0, 1), 512).status().unwrap().code, Code::SglLengthInvalid);
}

/// A Connect that is wrong: what it asks, its data, and the place that is complained of.
type Wrong = (&'static str, Sqe, ConnectData, Code, u32);

const ID: [u8; 16] = [9; 16];
/// Marks a place in the data, not in the command.
const IN_DATA: u32 = 1 << 16;

fn wrong_admin_connects() -> Vec<Wrong> {
    use Code::{ConnectFormat, ConnectHostRefused, ConnectInvalid};
    let data = |id, cntlid, subnqn, hostnqn| ConnectData::new(id, cntlid, subnqn, hostnqn);
    let any = ANY_CONTROLLER;
    let fine = data(ID, any, NQN, HOST);
    let mut other_format = connect(0, 31);
    other_format.words[0].set(1);
    let admin = connect(0, 31);
    vec![
        ("format", other_format, fine, ConnectFormat, 0),
        ("no entries", connect(0, 0), fine, ConnectInvalid, 44),
        ("too many entries", connect(0, 128), fine, ConnectInvalid, 44),
        ("a number", admin, data(ID, 1, NQN, HOST), ConnectInvalid, IN_DATA | 16),
        ("subsystem", admin, data(ID, any, "nqn.x", HOST), ConnectInvalid, IN_DATA | 256),
        ("no subsystem", admin, data(ID, any, "", HOST), ConnectInvalid, IN_DATA | 256),
        ("no host", admin, data(ID, any, NQN, ""), ConnectInvalid, IN_DATA | 512),
        ("no host id", admin, data([0; 16], any, NQN, HOST), ConnectInvalid, IN_DATA),
        ("host", admin, data(ID, any, NQN, "nqn.y"), ConnectHostRefused, 0),
    ]
}

fn wrong_io_connects(cntlid: u16) -> Vec<Wrong> {
    use Code::ConnectInvalid;
    let data = |id, cntlid, hostnqn| ConnectData::new(id, cntlid, NQN, hostnqn);
    let queue = connect(1, 31);
    vec![
        ("controller", queue, data(ID, 7, HOST), ConnectInvalid, IN_DATA | 16),
        ("other host id", queue, data([8; 16], cntlid, HOST), ConnectInvalid, IN_DATA),
        ("other host", queue, data(ID, cntlid, "nqn.y"), ConnectInvalid, IN_DATA | 512),
        ("queue number", connect(33, 31), data(ID, cntlid, HOST), ConnectInvalid, 42),
    ]
}

#[test]
fn what_is_wrong_with_a_connect_is_told_by_its_place() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.admin();
    let cases = [wrong_admin_connects(), wrong_io_connects(cntlid)];
    for (name, sqe, data, code, value) in cases.into_iter().flatten() {
        let conn = bench.hello();
        let ended = bench.command(conn, sqe, data.as_bytes()).expect(name);
        assert_eq!(ended.status().expect(name).code, code, "{name}");
        assert_eq!(ended.cqe.value(), value, "{name}");
    }
    let conn = bench.hello();
    assert_eq!(bench.connect(conn, 1, cntlid).status(), None);
    let conn = bench.hello();
    let again = bench.connect(conn, 1, cntlid).status().unwrap();
    assert_eq!(again.code, Code::CommandSequence, "the queue is there already");
}

#[test]
fn controllers_of_one_subsystem_have_numbers_of_their_own() {
    let mut bench = Bench::new();
    let mut seen: Vec<u16> = (0..50).map(|_| bench.admin().1).collect();
    seen.sort_unstable();
    assert_eq!(seen, (100..150).collect::<Vec<u16>>());
    let conn = bench.hello();
    let status = bench.connect(conn, 0, ANY_CONTROLLER).status().unwrap();
    assert_eq!(status.code, Code::ConnectBusy);
}

#[test]
fn with_flow_control_every_completion_tells_the_head() {
    let mut bench = Bench::new();
    let conn = bench.hello();
    let data = ConnectData::new([9; 16], ANY_CONTROLLER, NQN, HOST);
    let mut sqe = connect(0, 3);
    sqe.words[1].set(3);
    let ended = bench.command(conn, sqe, data.as_bytes()).unwrap();
    let heads: Vec<u16> =
        (0..4).map(|_| bench.command(conn, property(8, 0), &[]).unwrap().cqe.sqhd.get()).collect();
    assert_eq!((ended.cqe.sqhd.get(), heads), (1, vec![2, 3, 0, 1]));
}

#[test]
fn connections_that_say_nothing_are_closed_in_time() {
    let mut bench = Bench::new();
    let (silent, greeted) = (bench.accept(), bench.hello());
    let (admin, _) = bench.admin();
    bench.now = Duration::from_secs(4);
    bench.command(admin, Sqe::new(admin::KEEP_ALIVE), &[]).unwrap();
    assert_eq!(bench.port.next_deadline(), Some(Duration::from_secs(9)));
    bench.now = Duration::from_secs(8);
    bench.command(admin, Sqe::new(admin::KEEP_ALIVE), &[]).unwrap();
    bench.port.tick(Duration::from_secs(10));
    bench.drain();
    bench.closed.sort_unstable();
    assert_eq!(bench.closed, [silent, greeted]);
    bench.port.tick(Duration::from_secs(13));
    bench.drain();
    assert_eq!(bench.closed.last(), Some(&admin));
}

#[test]
fn an_event_waits_for_its_request_and_its_log() {
    let mut bench = Bench::new();
    let (conn, _) = bench.admin();
    let id = bench.port.find_subsystem(NQN).unwrap();
    let request = |bench: &mut Bench| {
        let cid = bench.cid();
        bench.send(conn, &capsule(Sqe::new(admin::ASYNC_EVENT), cid, &[]));
        cid
    };
    let change = |bench: &mut Bench, ana| {
        bench.port.set_ana(id, ana);
        bench.drain();
    };
    // Not wanted, not told.
    let first = request(&mut bench);
    change(&mut bench, Ana::NonOptimized);
    assert!(bench.heard(conn).is_empty());
    bench.command(conn, feature(0x0b, 1 << 11), &[]).unwrap();
    change(&mut bench, Ana::Inaccessible);
    assert_eq!(ended(&bench.heard(conn), first).unwrap().cqe.value(), 0x0c_03_02);
    // Masked until the log is read.
    let second = request(&mut bench);
    change(&mut bench, Ana::Optimized);
    assert!(bench.heard(conn).is_empty());
    let retained = log(0x0c | 1 << 15, 52);
    assert_eq!(bench.ask(conn, retained, 52).data[32], 1);
    assert!(bench.heard(conn).is_empty());
    let cid = bench.cid();
    let read = Sqe { sgl: Sgl::transport(52), ..log(0x0c, 52) };
    bench.send(conn, &capsule(read, cid, &[]));
    let units = bench.heard(conn);
    assert_eq!(units.len(), 2, "the log, and the event that it held back");
    assert_eq!(ended(&units[1..], second).unwrap().cqe.value(), 0x0c_03_02);
    // No more than four requests, and one can be taken back.
    let requests: Vec<u16> = (0..4).map(|_| request(&mut bench)).collect();
    let over = bench.command(conn, Sqe::new(admin::ASYNC_EVENT), &[]).unwrap();
    assert_eq!(over.status().unwrap().code, Code::AsyncEventLimit);
    let cid = bench.cid();
    let abort = Sqe::new(admin::ABORT).words([u32::from(requests[1]) << 16]);
    bench.send(conn, &capsule(abort, cid, &[]));
    let units = bench.heard(conn);
    let aborted = ended(&units[..1], requests[1]).unwrap().status().unwrap();
    assert_eq!(aborted.code, Code::AbortRequested);
    assert_eq!(ended(&units[1..], cid).unwrap().cqe.value(), 0);
}

#[test]
fn a_reset_takes_the_io_queues_and_the_requests_for_events() {
    let mut bench = Bench::new();
    let (admin, cntlid) = bench.admin();
    let io_conn = bench.hello();
    bench.connect(io_conn, 1, cntlid);
    let configure = |bench: &mut Bench, value| {
        let sqe = Sqe::fabrics(fabrics::PROPERTY_SET).words([0, 0x14, value]);
        bench.command(admin, sqe, &[]).unwrap().status()
    };
    let cid = bench.cid();
    bench.send(admin, &capsule(Sqe::new(admin::ASYNC_EVENT), cid, &[]));
    assert_eq!(configure(&mut bench, 0x0046_0000), None);
    assert_eq!(bench.closed, [io_conn]);
    assert_eq!(configure(&mut bench, 0x0046_0001), None);
    bench.send(admin, &capsule(Sqe::new(admin::ASYNC_EVENT), cid, &[]));
    assert!(bench.heard(admin).is_empty(), "its identifier is free again");
    let conn = bench.hello();
    assert_eq!(bench.connect(conn, 1, cntlid).status(), None);
}

#[test]
fn features_are_given_back_as_they_were_set() {
    let mut bench = Bench::new();
    let (conn, _) = bench.admin();
    let get = |bench: &mut Bench, what: u32, word: u32| {
        let sqe = Sqe::new(admin::GET_FEATURES).nsid(1).words([what, word]);
        bench.ask(conn, sqe, 4096)
    };
    let set = |bench: &mut Bench, what: u32, value: u32| {
        bench.command(conn, feature(what, value).nsid(1), &[]).unwrap().status()
    };
    for (what, value) in [(0x06, 0), (0x0b, 0x100), (0x0f, 7000), (0x82, 0xe), (0x04, 300)] {
        assert_eq!(set(&mut bench, what, value), None);
        assert_eq!(get(&mut bench, what, 0).cqe.value(), value);
    }
    assert_eq!(get(&mut bench, 0x07, 0).cqe.value(), 31 | 31 << 16, "what there may be");
    assert_eq!(set(&mut bench, 0x07, 1 | 2 << 16), None);
    assert_eq!(get(&mut bench, 0x07, 0).cqe.value(), 1 | 1 << 16, "what was given");
    assert_eq!(get(&mut bench, 0x81, 1).data, [9; 16]);
    assert_eq!(get(&mut bench, 0x81, 0).status().unwrap().code, Code::InvalidField);
    assert_eq!(set(&mut bench, 0x81, 0).unwrap().code, Code::CommandSequence);
    let behavior = Sqe::new(admin::SET_FEATURES).words([0x16]);
    assert_eq!(bench.command(conn, behavior, &[1; 512]).unwrap().status(), None);
    assert_eq!(get(&mut bench, 0x16, 0).data[..5], [1, 1, 1, 1, 0]);
    assert_eq!(set(&mut bench, 0xd0, 0).unwrap().code, Code::InvalidField);
    let saved = bench.command(conn, feature(0x06 | 1 << 31, 0), &[]).unwrap();
    assert_eq!(saved.status().unwrap().code, Code::FeatureNotSaveable);
}

#[test]
fn discovery_tells_each_host_what_it_may_use() {
    let listen = nvme::target::Listen {
        family: nvme::target::Family::V4,
        address: "10.0.0.1".into(),
        service: "4420".into(),
    };
    let mut port = Port::new(vec![listen]);
    port.add_subsystem(subsystem(volume())).unwrap();
    let mut hidden = subsystem(volume());
    hidden.nqn = "nqn.hidden".into();
    hidden.hosts = Hosts::Only(["nqn.other".into()].into());
    port.add_subsystem(hidden).unwrap();
    port.add_route("nqn.routed".into(), 1, Hosts::Any);
    let mut bench = Bench::of(port);
    let conn = bench.hello();
    let data = ConnectData::new([0; 16], ANY_CONTROLLER, DISCOVERY_NQN, HOST);
    assert_eq!(bench.command(conn, connect(0, 31), data.as_bytes()).unwrap().status(), None);
    let enable = Sqe::fabrics(fabrics::PROPERTY_SET).words([0, 0x14, 0x0046_0001]);
    bench.command(conn, enable, &[]).unwrap();
    let id = bench.ask(conn, identify(1, 0), 4096).data;
    assert_eq!(id[111], 2, "a discovery controller");
    let page = bench.ask(conn, log(0x70, 4096), 4096).data;
    let (header, rest) = DiscoveryHeader::read_from_prefix(&page).unwrap();
    assert_eq!(header.records.get(), 2);
    let (record, _) = DiscoveryRecord::read_from_prefix(rest).unwrap();
    assert_eq!((record.transport, record.family, record.subtype), (3, 1, 2));
    assert_eq!(&record.service[..5], b"4420 ");
    assert_eq!(&record.address[..9], b"10.0.0.1 ");
    assert_eq!(&record.subnqn[..NQN.len()], NQN.as_bytes());
    // In pieces it is the same.
    let mut piece = log(0x70, 1024);
    piece.words[2].set(1024);
    assert_eq!(bench.ask(conn, piece, 1024).data, page[1024..2048]);
    assert_eq!(bench.ask(conn, log(0x0c, 64), 64).status().unwrap().code, Code::InvalidLogPage);
    // A change is told to those who asked.
    bench.command(conn, feature(0x0b, 1 << 31), &[]).unwrap();
    let cid = bench.cid();
    bench.send(conn, &capsule(Sqe::new(admin::ASYNC_EVENT), cid, &[]));
    bench.port.remove_route("nqn.routed");
    bench.drain();
    assert_eq!(ended(&bench.heard(conn), cid).unwrap().cqe.value(), 0x70_f0_02);
    let (header, _) = DiscoveryHeader::read_from_prefix(&page).unwrap();
    let after = bench.ask(conn, log(0x70, 1024), 1024).data;
    let (now, _) = DiscoveryHeader::read_from_prefix(&after).unwrap();
    assert!(now.generation.get() > header.generation.get() && now.records.get() == 1);
}

#[test]
fn a_disconnect_ends_one_queue_and_not_the_session() {
    let mut bench = Bench::new();
    let (_, cntlid) = bench.admin();
    let conn = bench.hello();
    bench.connect(conn, 1, cntlid);
    let ended = bench.command(conn, Sqe::fabrics(fabrics::DISCONNECT), &[]).unwrap();
    assert_eq!(ended.status(), None);
    assert_eq!(bench.closed, [conn]);
    assert_eq!(bench.port.sessions().count(), 1);
    let conn = bench.hello();
    assert_eq!(bench.connect(conn, 1, cntlid).status(), None);
}

#[test]
fn a_connection_for_another_port_goes_there_with_its_bytes() {
    let mut first = Port::new(Vec::new());
    first.add_route(NQN.into(), 7, Hosts::Any);
    let mut second = Port::new(Vec::new());
    second.add_subsystem(subsystem(volume())).unwrap();
    let now = Duration::ZERO;
    let conn = first.accept(now).unwrap();
    first.receive(now, conn, IcReq::new(0, 0).as_bytes());
    assert!(matches!(first.poll(), Some(nvme::target::Out::Send { .. })));
    let data = ConnectData::new([9; 16], ANY_CONTROLLER, NQN, HOST);
    let mut bytes = capsule(connect(0, 31), 1, data.as_bytes());
    // An impatient host sends the next command along.
    bytes.extend(capsule(property(8, 0), 2, &[]));
    first.receive(now, conn, &bytes);
    let Some(nvme::target::Out::Moved { conn: old, place: 7, parcel }) = first.poll() else {
        panic!("it belongs to the other port");
    };
    assert_eq!(old, conn);
    assert!(first.poll().is_none());
    let conn = second.adopt(now, parcel).unwrap();
    let mut bench = Bench::of(second);
    bench.drain();
    let units = bench.heard(conn);
    assert_eq!(units.iter().map(|unit| unit.kind).collect::<Vec<_>>(), [Kind::CapsuleResp; 2]);
    assert_eq!(ended(&units[..1], 1).unwrap().status(), None);
    assert_eq!(ended(&units[1..], 2).unwrap().cqe.value(), 0x10400);
}
