//! Streams on loopback.

use std::net::{Ipv4Addr, SocketAddr};

use block::Buffer;
use uring::{Chunk, IoError, Listener, Op, Outcome, Socket};

use crate::{Rig, on_both};

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Both ends of a connection.
pub(crate) fn pair(rig: &mut Rig) -> (Socket, Socket) {
    let listener = Listener::tcp(loopback()).unwrap();
    let to = listener.local_addr().unwrap();
    rig.reactor.submit(1, Op::Accept { listener });
    rig.reactor.submit(2, Op::Connect { to });
    let Outcome::Accepted(Ok(theirs)) = rig.outcome(1) else { panic!("not accepted") };
    let Outcome::Connected(Ok(ours)) = rig.outcome(2) else { panic!("not connected") };
    (ours, theirs)
}

fn send(rig: &mut Rig, socket: &Socket, chunks: Vec<Chunk>) -> Result<(), IoError> {
    match rig.run(Op::Send { socket: socket.clone(), chunks }) {
        Outcome::Sent { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

fn receive(rig: &mut Rig, socket: &Socket) -> Result<Vec<u8>, IoError> {
    let buffer = Buffer::zeroed(4096);
    match rig.run(Op::Receive { socket: socket.clone(), buffer, at: 0 }) {
        Outcome::Received { buffer, result } => result.map(|n| buffer.bytes()[..n].to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_end_knows_the_other_and_hears_what_it_says() {
    on_both(|rig| {
        let (ours, theirs) = pair(rig);
        assert_eq!(ours.peer(), theirs.local_addr());
        assert_eq!(theirs.peer(), ours.local_addr());
        send(rig, &ours, vec![b"hello, ".to_vec().into(), Buffer::copy_of(b"world").into()])
            .unwrap();
        assert_eq!(receive(rig, &theirs).unwrap(), b"hello, world");
        send(rig, &theirs, vec![Chunk::Bytes(b"yes?".to_vec())]).unwrap();
        assert_eq!(receive(rig, &ours).unwrap(), b"yes?");
    });
}

#[test]
fn a_huge_scattered_send_arrives_whole_and_in_order() {
    on_both(|rig| {
        let (ours, theirs) = pair(rig);
        let piece = |n: usize| vec![u8::try_from(n % 251).unwrap(); 1 + n * 7 % 4000];
        let chunks: Vec<Chunk> = (0..5000)
            .map(|n| if n % 2 == 0 { piece(n).into() } else { Buffer::copy_of(&piece(n)).into() })
            .collect();
        let expected: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes().to_vec()).collect();
        rig.reactor.submit(7, Op::Send { socket: ours, chunks });
        let mut got = Vec::new();
        let mut buffer = Buffer::zeroed(100_000);
        while got.len() < expected.len() {
            // At an odd place, so that what lies before must stay.
            rig.reactor.submit(8, Op::Receive { socket: theirs.clone(), buffer, at: 17 });
            let Outcome::Received { buffer: back, result } = rig.outcome(8) else { panic!() };
            let count = result.unwrap();
            assert!(count > 0 && back.bytes()[..17] == [0; 17]);
            got.extend_from_slice(&back.bytes()[17..17 + count]);
            buffer = back;
        }
        assert!(got == expected);
        assert!(matches!(rig.outcome(7), Outcome::Sent { result: Ok(()), .. }));
    });
}

#[test]
fn the_end_of_a_stream_is_told_as_nothing_received() {
    on_both(|rig| {
        let (ours, theirs) = pair(rig);
        send(rig, &ours, vec![b"bye".to_vec().into()]).unwrap();
        drop(ours);
        assert_eq!(receive(rig, &theirs).unwrap(), b"bye");
        assert_eq!(receive(rig, &theirs).unwrap(), b"");
    });
}

#[test]
fn closing_ends_what_is_in_flight() {
    on_both(|rig| {
        let (ours, theirs) = pair(rig);
        let buffer = Buffer::zeroed(10);
        rig.reactor.submit(5, Op::Receive { socket: ours.clone(), buffer, at: 0 });
        // More than the kernel takes while nobody reads.
        let chunks = vec![Chunk::Bytes(vec![1; 64 << 20])];
        rig.reactor.submit(6, Op::Send { socket: ours.clone(), chunks });
        assert!(matches!(
            rig.run(Op::Timeout { at: std::time::Instant::now() }),
            Outcome::Elapsed(Ok(()))
        ));
        ours.close();
        assert!(matches!(rig.outcome(5), Outcome::Received { result: Ok(0) | Err(_), .. }));
        assert!(matches!(rig.outcome(6), Outcome::Sent { result: Err(_), .. }));
        drop(theirs);
    });
}

#[test]
fn sending_to_a_peer_that_is_gone_is_an_error() {
    on_both(|rig| {
        let (ours, theirs) = pair(rig);
        drop(theirs);
        let failed = (0..100).any(|_| send(rig, &ours, vec![vec![0; 1 << 16].into()]).is_err());
        assert!(failed);
    });
}

#[test]
fn a_cancelled_receive_gives_its_buffer_back_and_leaves_the_stream_usable() {
    on_both(|rig| {
        let (ours, theirs) = pair(rig);
        let buffer = Buffer::zeroed(99);
        rig.reactor.submit(5, Op::Receive { socket: ours.clone(), buffer, at: 0 });
        rig.reactor.cancel(5);
        match rig.outcome(5) {
            Outcome::Received { buffer, result: Err(IoError::Cancelled) } => {
                assert_eq!(buffer.len(), 99);
            }
            other => panic!("{other:?}"),
        }
        send(rig, &theirs, vec![b"still here".to_vec().into()]).unwrap();
        assert_eq!(receive(rig, &ours).unwrap(), b"still here");
    });
}

#[test]
fn cancelling_what_is_not_there_does_nothing() {
    on_both(|rig| {
        rig.reactor.cancel(5);
        let (ours, theirs) = pair(rig);
        send(rig, &theirs, vec![b"x".to_vec().into()]).unwrap();
        assert_eq!(receive(rig, &ours).unwrap(), b"x");
        assert_eq!(rig.reactor.in_flight(), 0);
    });
}

#[test]
fn one_direction_takes_one_operation_at_a_time() {
    on_both(|rig| {
        let (ours, theirs) = pair(rig);
        let buffer = Buffer::zeroed(10);
        rig.reactor.submit(5, Op::Receive { socket: ours.clone(), buffer, at: 0 });
        assert!(matches!(receive(rig, &ours), Err(IoError::Refused(_))));
        send(rig, &theirs, vec![b"one".to_vec().into()]).unwrap();
        assert!(matches!(rig.outcome(5), Outcome::Received { result: Ok(3), .. }));
    });
}

#[test]
fn empty_sends_succeed_and_receives_without_room_are_refused() {
    on_both(|rig| {
        let (ours, _theirs) = pair(rig);
        send(rig, &ours, vec![]).unwrap();
        send(rig, &ours, vec![Chunk::Bytes(vec![])]).unwrap();
        let op = Op::Receive { socket: ours, buffer: Buffer::zeroed(10), at: 10 };
        assert!(matches!(rig.run(op), Outcome::Received { result: Err(IoError::Refused(_)), .. }));
    });
}

#[test]
fn nobody_listening_is_an_error() {
    on_both(|rig| {
        let gone = Listener::tcp(loopback()).unwrap();
        let to = gone.local_addr().unwrap();
        drop(gone);
        assert!(matches!(rig.run(Op::Connect { to }), Outcome::Connected(Err(IoError::Os(_)))));
    });
}

#[test]
fn a_closed_listener_ends_its_accepts_and_a_cancelled_one_its_own() {
    on_both(|rig| {
        let listener = Listener::tcp(loopback()).unwrap();
        rig.reactor.submit(5, Op::Accept { listener: listener.clone() });
        rig.reactor.submit(6, Op::Accept { listener: listener.clone() });
        rig.reactor.cancel(5);
        assert!(matches!(rig.outcome(5), Outcome::Accepted(Err(IoError::Cancelled))));
        listener.close();
        assert!(matches!(rig.outcome(6), Outcome::Accepted(Err(_))));
    });
}

#[test]
fn a_local_socket_serves_like_any_other() {
    on_both(|rig| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::local(&path).unwrap();
        rig.reactor.submit(1, Op::Accept { listener });
        let ours = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let ours = Socket::try_from(std::os::fd::OwnedFd::from(ours)).unwrap();
        let Outcome::Accepted(Ok(theirs)) = rig.outcome(1) else { panic!("not accepted") };
        send(rig, &ours, vec![b"hi".to_vec().into()]).unwrap();
        assert_eq!(receive(rig, &theirs).unwrap(), b"hi");
    });
}
