//! The host: asks through every path that it has, and compares what it is told with what it knows.

use std::{collections::BTreeMap, time::Duration};

use block::{Durability, Extent};
use nvme::{
    Code, Digests, Op, Reply, Status,
    initiator::{Attached, Config, Out, Session},
};

use super::{
    oracle::filled,
    world::{Event, HOST, HOST_PARTY, NODES, VOLUME, WINDOWS, World},
};
use crate::{
    simulated_node::time,
    streams::{Arrival, Side, StreamEnd, StreamId},
};

#[derive(Debug, Default)]
pub(super) struct Host {
    paths: BTreeMap<u64, HostPath>,
    last_path: u64,
    /// Which path a stream belongs to, and for which queue of it.
    streams: BTreeMap<StreamId, (u64, u16)>,
    /// By tag.
    pub(super) asked: BTreeMap<u64, Asked>,
    last_tag: u64,
    /// It asks nothing new.
    pub(super) is_resting: bool,
    /// Blocks of commands that were answered well.
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) flushes: u64,
}

/// A way to a target: an NVMe session with it.
#[derive(Debug)]
struct HostPath {
    node: usize,
    session: Box<Session>,
    /// Of the target, once the session is live.
    epoch: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Asked {
    epoch: u64,
    path: u64,
    at: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Write { extent: Extent, number: u64, is_durable: bool },
    Read { extent: Extent, floors: Vec<[u64; 8]> },
    Flush { acked: Vec<u64> },
}

/// A command is held for 20 s at most.
const PATIENCE: u64 = 22_000_000;
/// More than two of a target's looks at what is idle.
const WHILE: u64 = 7_500_000;
const ASKED_MOST: usize = 12;
/// The one I/O queue of a path.
const QUEUE: u16 = 1;

impl Host {
    /// The epoch of the target that is reached through a stream.
    pub(super) fn epoch_of(&self, stream: StreamId) -> Option<u64> {
        let (path, _) = self.streams.get(&stream)?;
        self.paths.get(path)?.epoch
    }

    fn stream_of(&self, path: u64, queue: u16) -> Option<StreamId> {
        let mut all = self.streams.iter();
        all.find(|(_, of)| **of == (path, queue)).map(|(stream, _)| *stream)
    }
}

fn config() -> Config {
    Config {
        host_nqn: HOST.nqn(),
        host_id: *HOST.0.as_bytes(),
        subsystem_nqn: VOLUME.nqn(),
        io_queues: 1,
        entries: 32,
        digests: Digests::default(),
        keep_alive: Duration::from_secs(5),
        // Longer than anything may take: what is late is noticed before.
        command_timeout: Duration::from_mins(1),
        attach_timeout: Duration::from_secs(3),
    }
}

impl World {
    pub(super) fn host_acts(&mut self) {
        let delay = self.random.between(300, 5_000);
        self.after(delay, Event::Host);
        self.host_connects();
        self.host_looks_at_clock();
        let now = self.now;
        let late = self.host.asked.values().find(|asked| now - asked.at > PATIENCE);
        if let Some(Asked { epoch, what, .. }) = late {
            let words = format!("target {epoch} leaves a host without an answer: {what:?}");
            return self.breaks("10", words);
        }
        if self.host.is_resting {
            return;
        }
        let waits = self.host.asked.values().any(|asked| now - asked.at > 3_000_000);
        if self.random.chance(if waits { 5 } else { 1 }) {
            self.host_gives_up();
        }
        if self.host.asked.len() < ASKED_MOST {
            self.host_asks();
        }
    }

    /// To whatever serves, also to what is old.
    fn host_connects(&mut self) {
        let has_path = |node: usize| self.host.paths.values().any(|path| path.node == node);
        let is_serving =
            |node: usize| self.nodes[node].target().is_some_and(mirror::Target::is_serving);
        let new = (0..NODES).find(|node| is_serving(*node) && !has_path(*node));
        let Some(node) = new else { return };
        if !self.random.chance(100) {
            return;
        }
        self.host.last_path += 1;
        let path = self.host.last_path;
        let mut session = Box::new(Session::new(config()));
        session.connect(time(self.now));
        self.host.paths.insert(path, HostPath { node, session, epoch: None });
        self.poll_path(path);
    }

    fn host_looks_at_clock(&mut self) {
        let now = time(self.now);
        let is_due = |path: &HostPath| path.session.next_deadline().is_some_and(|at| at <= now);
        let due = self.host.paths.iter().filter(|(_, path)| is_due(path)).map(|(id, _)| *id);
        for id in due.collect::<Vec<_>>() {
            if let Some(path) = self.host.paths.get_mut(&id) {
                path.session.tick(now);
            }
            self.poll_path(id);
        }
    }

    pub(super) fn host_hears(&mut self, stream: StreamId, arrival: &Arrival) {
        let Some((id, queue)) = self.host.streams.get(&stream).copied() else { return };
        if *arrival == Arrival::Closed {
            self.host.streams.remove(&stream);
        }
        let now = time(self.now);
        let Some(path) = self.host.paths.get_mut(&id) else { return };
        match arrival {
            Arrival::Dialled => {}
            Arrival::Accepted => path.session.opened(now, queue),
            Arrival::Bytes(bytes) => path.session.receive(now, queue, bytes),
            Arrival::Closed => path.session.closed(queue),
        }
        self.poll_path(id);
    }

    fn poll_path(&mut self, id: u64) {
        while let Some(path) = self.host.paths.get_mut(&id)
            && let Some(out) = path.session.poll()
        {
            let node = path.node;
            match out {
                Out::Open { queue } => {
                    let stream = self.dial(HOST_PARTY, node);
                    self.host.streams.insert(stream, (id, queue));
                }
                Out::Send { queue, outgoing } => {
                    let bytes = outgoing.pieces(0).flatten().copied().collect();
                    path.session.recycle(outgoing);
                    if let Some(stream) = self.host.stream_of(id, queue) {
                        self.send(StreamEnd { stream, side: Side::Dialer }, bytes);
                    }
                }
                Out::Close { queue } => self.close_queue(id, queue),
                Out::Ready(attached) => self.path_is_ready(id, &attached),
                Out::Done { tag, result } => self.host_told(tag, result),
                Out::Event(_) => {}
                Out::Dead { .. } => self.forget_path(id),
            }
        }
    }

    fn close_queue(&mut self, path: u64, queue: u16) {
        if let Some(stream) = self.host.stream_of(path, queue) {
            self.host.streams.remove(&stream);
            self.close(StreamEnd { stream, side: Side::Dialer });
        }
    }

    /// Targets take turns in numbers of controllers: that tells which one this is.
    fn path_is_ready(&mut self, id: u64, attached: &Attached) {
        let current = self.control.current;
        let is_it = |epoch: &u64| {
            let (first, count) = model::controller_range(*epoch);
            (first..first + count).contains(&attached.cntlid)
        };
        let epoch = (0..=current).rev().find(is_it);
        if let Some(path) = self.host.paths.get_mut(&id) {
            path.epoch = epoch;
        }
        self.note(|| format!("the host has a path to target {epoch:?}"));
    }

    fn host_gives_up(&mut self) {
        let oldest = self.host.asked.values().min_by_key(|asked| asked.at);
        let Some(id) = oldest.map(|asked| asked.path) else { return };
        let Some(path) = self.host.paths.get_mut(&id) else { return };
        let epoch = path.epoch;
        path.session.stop();
        self.note(|| format!("the host gives up its path to target {epoch:?}"));
        self.poll_path(id);
    }

    fn forget_path(&mut self, id: u64) {
        let streams: Vec<StreamId> = self
            .host
            .streams
            .iter()
            .filter(|(_, (path, _))| *path == id)
            .map(|(stream, _)| *stream)
            .collect();
        for stream in streams {
            self.host.streams.remove(&stream);
            self.close(StreamEnd { stream, side: Side::Dialer });
        }
        self.host.paths.remove(&id);
        self.host.asked.retain(|_, asked| asked.path != id);
    }

    fn pick_path(&mut self) -> Option<(u64, u64)> {
        let paths = self.host.paths.iter();
        let paths: Vec<_> = paths.filter_map(|(id, path)| Some((*id, path.epoch?))).collect();
        let newest = paths.iter().copied().max_by_key(|(_, epoch)| *epoch)?;
        if self.random.chance(800) { Some(newest) } else { self.random.pick(&paths).copied() }
    }

    /// Few blocks, far apart and side by side: regions, clusters and each other are met.
    fn pick_extent(&mut self) -> Extent {
        let any = *self.random.pick(WINDOWS).unwrap_or(&Extent::new(0, 1));
        let window = self.host_keeps_to().unwrap_or(any);
        let start = window.start + self.random.below(u64::from(window.blocks));
        let most = window.end() - start;
        let blocks = self.random.between(1, 5).min(most);
        Extent::new(start, u32::try_from(blocks).unwrap_or(1))
    }

    /// Every other while it stays in one place, so that the rest is idle and is called clean.
    fn host_keeps_to(&self) -> Option<Extent> {
        let span = self.now / WHILE;
        let index = usize::try_from(span / 2).unwrap_or(0) % WINDOWS.len();
        (!span.is_multiple_of(2)).then(|| WINDOWS[index])
    }

    fn host_asks(&mut self) {
        let Some((path, epoch)) = self.pick_path() else { return };
        let extent = self.pick_extent();
        let is_busy = self.host.asked.values().any(|asked| match &asked.what {
            What::Write { extent: other, .. } => other.overlaps(&extent),
            _ => false,
        });
        let drawn = self.random.below(100);
        let (what, op) = match drawn {
            0..40 if is_busy => return,
            0..40 => {
                let is_zero = drawn < 8;
                let durability = Durability::from_fua(drawn.is_multiple_of(8));
                let number = self.oracle.issue(extent, is_zero, epoch);
                let op = if is_zero {
                    Op::Zero { extent, deallocate: true, durability }
                } else {
                    let data = filled(number, extent.blocks);
                    Op::Write { extent, data, durability }
                };
                (What::Write { extent, number, is_durable: durability.is_durable() }, op)
            }
            40..92 => {
                let floors = self.oracle.floors(extent);
                (What::Read { extent, floors }, Op::Read { extent })
            }
            _ => (What::Flush { acked: self.oracle.acked_now() }, Op::Flush),
        };
        self.host.last_tag += 1;
        let tag = self.host.last_tag;
        let asked = Asked { epoch, path, at: self.now, what };
        self.host.asked.insert(tag, asked);
        let now = time(self.now);
        if let Some(way) = self.host.paths.get_mut(&path) {
            way.session.submit(now, QUEUE, tag, op);
        }
        self.poll_path(path);
    }

    fn host_told(&mut self, tag: u64, result: Result<Reply, Status>) {
        let Some(Asked { epoch, what, .. }) = self.host.asked.remove(&tag) else {
            return self.breaks("10", "a command is answered that nobody waits for");
        };
        if matches!(&result, Err(status) if status.is_path_related()) {
            // It says nothing about the command: that may have happened or not.
            return;
        }
        *self.counts.checks.entry("10").or_default() += 1;
        let has_reason = self.has_reason_to_fail();
        match (what, result) {
            (What::Write { extent, number, is_durable }, Ok(_)) => {
                self.host.writes += 1;
                self.oracle.acked(extent, number, is_durable, epoch);
            }
            (What::Write { extent, number, .. }, Err(status))
                if has_reason && status.code != Code::LbaOutOfRange =>
            {
                self.note(|| format!("write {number} fails: {status}"));
                self.oracle.failed(extent, number);
            }
            (What::Read { extent, floors }, Ok(Reply::Data(data))) => {
                self.host.reads += 1;
                let result = self.oracle.read(extent, &floors, data.bytes(), epoch);
                self.check("2", result);
            }
            (What::Read { .. }, Err(status))
                if has_reason && status.code == Code::UnrecoveredRead => {}
            (What::Flush { acked }, Ok(_)) => {
                self.host.flushes += 1;
                let result = self.oracle.flushed(&acked, epoch);
                self.check("1", result);
            }
            (What::Flush { .. }, Err(status)) => {
                self.note(|| format!("a flush through target {epoch} fails: {status}"));
                if !self.oracle.flush_failed(epoch) && !has_reason {
                    self.breaks("10", "a flush fails without a reason");
                }
            }
            (what, result) => {
                self.breaks("10", format!("{what:?} ends in {result:?} without a reason"));
            }
        }
    }

    fn has_reason_to_fail(&self) -> bool {
        self.counts.faults.keys().any(|kind| {
            matches!(
                *kind,
                "sync fails" | "writes fail" | "reads fail" | "pool full" | "all full" | "snapshot"
            )
        })
    }

    /// Nothing is unanswered.
    pub(super) fn host_is_quiet(&self) -> bool {
        self.host.asked.is_empty()
    }
}
