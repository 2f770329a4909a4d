//! A real socket, and a target behind it that is slow to take connections up.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use nvme::{
    reservation::Reservations,
    target::{ConnId, Hosts, Kind as Served, Namespace, Out as Said, Port, Subsystem},
    wire::log::Ana,
};

use super::*;

const NQN: &str = "nqn.2026-01.io.holdfast:slow";
const BLOCKS: u64 = 1024;

/// A target that takes up each connection only after a while, as one with much else to do.
struct Slow {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    dialled: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

struct Caller {
    stream: TcpStream,
    came_at: Instant,
    conn: Option<ConnId>,
}

impl Slow {
    fn start(late: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (ends, dialled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ended, counted) = (Arc::clone(&ends), Arc::clone(&dialled));
        let thread = thread::spawn(move || serve(&listener, late, &ended, &counted));
        Self { address, ends, dialled, thread: Some(thread) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn port() -> Port {
    let mut port = Port::new(Vec::new());
    port.add_subsystem(Subsystem {
        nqn: NQN.into(),
        serial: "0001".into(),
        hosts: Hosts::Any,
        namespace: Namespace {
            uuid: uuid::Uuid::from_u128(1),
            nguid: [1; 16],
            blocks: BLOCKS,
            is_thin: true,
            ana: Ana::Optimized,
        },
        first_cntlid: 1,
        cntlids: 50,
        kind: Served::Volume { reservations: Reservations::new(), can_last: false },
    })
    .unwrap();
    port
}

fn serve(listener: &TcpListener, late: Duration, ends: &AtomicBool, dialled: &AtomicUsize) {
    listener.set_nonblocking(true).unwrap();
    let (mut port, began) = (port(), Instant::now());
    let mut callers: BTreeMap<usize, Caller> = BTreeMap::new();
    while !ends.load(Ordering::Relaxed) {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            let caller = Caller { stream, came_at: Instant::now(), conn: None };
            callers.insert(dialled.fetch_add(1, Ordering::Relaxed), caller);
        }
        let mut gone = BTreeSet::new();
        for (number, caller) in &mut callers {
            if caller.came_at.elapsed() >= late && !hear(&mut port, began.elapsed(), caller) {
                gone.insert(*number);
            }
        }
        while let Some(said) = port.poll() {
            if let Said::Send { conn, outgoing } = said
                && let Some(caller) = callers.values_mut().find(|c| c.conn == Some(conn))
            {
                let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
                // Small enough for any socket; who is gone is noticed above.
                let _ = caller.stream.write_all(&bytes);
            }
        }
        for caller in gone.iter().filter_map(|number| callers.remove(number)) {
            caller.conn.into_iter().for_each(|conn| port.closed(conn));
        }
        // It looks around all the time, and lets others work meanwhile.
        thread::sleep(Duration::from_millis(1));
    }
}

/// False if the caller is gone.
fn hear(port: &mut Port, now: Duration, caller: &mut Caller) -> bool {
    let conn = *caller.conn.get_or_insert_with(|| port.accept(now).unwrap());
    let mut bytes = [0; 8192];
    match caller.stream.read(&mut bytes) {
        Ok(0) => false,
        Ok(len) => {
            port.receive(now, conn, &bytes[..len]);
            true
        }
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// HA-4: each connection is taken up later than the first try waits, and still the host attaches,
/// within a few tries.
#[test]
fn a_target_that_is_slower_than_the_first_try_is_attached_to() {
    let slow = Slow::start(ATTACH_TIMEOUT + Duration::from_millis(500));
    let uri = Uri { addresses: vec![slow.address], nqn: NQN.into() };
    let options = Options { patience: Duration::from_secs(30), ..Options::default() };
    let client = Client::connect(&uri, options).unwrap();
    assert_eq!(client.blocks(), BLOCKS);
    // One for the first try, two for each that gets further; a busy machine may need more.
    assert!((3..=9).contains(&slow.dialled.load(Ordering::Relaxed)));
}

#[test]
fn patience_grows_and_has_an_end() {
    let seconds: Vec<u64> = (0..5).map(|rounds| attach_timeout(rounds).as_secs()).collect();
    assert_eq!(seconds, [2, 4, 8, 8, 8]);
    assert_eq!(attach_timeout(usize::MAX), ATTACH_TIMEOUT_MAX);
}
