//! The client's half against the server's, over a socket.

use std::os::unix::net::UnixListener;

use block::Durability::Durable;

use super::*;
use crate::nbd::{Errno, Nbd, Op as Asked, Span};

/// Serves one client from memory with the server's own machine; the last block cannot be read.
fn serve(listener: &UnixListener, blocks: usize) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut disk = vec![0; blocks * BLOCK];
    let mut machine = Nbd::new(blocks as u64);
    let mut bytes = vec![0; 70_000];
    loop {
        let outgoing = std::mem::take(&mut machine.outgoing);
        stream.write_all(&outgoing).unwrap();
        if machine.is_ended() {
            return;
        }
        let len = stream.read(&mut bytes).unwrap();
        let mut requests = Vec::new();
        machine.receive(&bytes[..len], &mut requests).unwrap();
        for request in requests {
            let place = |span: Span| {
                let start = usize::try_from(span.offset).unwrap();
                start..start + usize::try_from(span.len).unwrap()
            };
            match request.op {
                Asked::Read { span } if place(span).end == disk.len() => {
                    machine.done(request.cookie, Err(Errno::Io));
                }
                Asked::Read { span } => {
                    let mut data = Buffer::zeroed(place(span).len());
                    data.get_mut().unwrap().copy_from_slice(&disk[place(span)]);
                    machine.done(request.cookie, Ok(Some(&data)));
                }
                Asked::Write { span, data, .. } => {
                    disk[place(span)].copy_from_slice(data.bytes());
                    machine.done(request.cookie, Ok(None));
                }
                _ => machine.done(request.cookie, Ok(None)),
            }
        }
    }
}

fn answers(client: &mut NbdClient, count: usize) -> BTreeMap<u64, Result<Reply, Status>> {
    let mut done = Vec::new();
    while done.len() < count {
        client.wait(&mut done, None).unwrap();
    }
    done.into_iter().map(|done| (done.tag, done.result)).collect()
}

#[test]
fn what_was_written_is_read_and_errors_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || serve(&listener, 64));
    let uri = format!("nbd+unix:///?socket={}", path.display()).parse().unwrap();
    let mut client = NbdClient::connect(&uri).unwrap();
    assert_eq!(client.blocks(), 64);
    let mut data = Buffer::zeroed(3 * BLOCK);
    data.get_mut().unwrap().fill(7);
    client.submit(1, &Op::Write { extent: Extent::new(2, 3), data, durability: Durable });
    client.submit(2, &Op::Flush);
    assert_eq!(
        answers(&mut client, 2).into_values().collect::<Vec<_>>(),
        [Ok(Reply::Done), Ok(Reply::Done)]
    );
    client.submit(3, &Op::Read { extent: Extent::new(4, 2) });
    client.submit(4, &Op::Read { extent: Extent::new(63, 1) });
    let told = answers(&mut client, 2);
    let Ok(Reply::Data(read)) = &told[&3] else { panic!("{told:?}") };
    assert_eq!(read.bytes()[..BLOCK], [7; BLOCK]);
    assert_eq!(read.bytes()[BLOCK..], [0; BLOCK]);
    assert_eq!(told[&4], Err(Code::InternalError.into()));
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_server_that_ends_is_told_and_hangs_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut machine = Nbd::new(8);
        let mut bytes = [0; 4096];
        stream.write_all(&std::mem::take(&mut machine.outgoing)).unwrap();
        while machine.outgoing.is_empty() {
            let len = stream.read(&mut bytes).unwrap();
            machine.receive(&bytes[..len], &mut Vec::new()).unwrap();
        }
        stream.write_all(&machine.outgoing).unwrap();
    });
    let mut client = NbdClient::connect(&NbdUri::Unix(path)).unwrap();
    server.join().unwrap();
    client.submit(1, &Op::Flush);
    let error = client.wait(&mut Vec::new(), None).unwrap_err();
    assert!(matches!(error, ClientError::DeviceGone { .. }), "{error}");
}

#[test]
fn what_names_no_server_is_refused() {
    assert_eq!("nbd://localhost:10809".parse(), Ok(NbdUri::Tcp("localhost:10809".into())));
    for text in ["", "nbd://", "nbd://x", "nbd+unix:///?socket=", "nvme-tcp://a:1/nqn.x"] {
        assert!(text.parse::<NbdUri>().is_err(), "{text}");
    }
}
