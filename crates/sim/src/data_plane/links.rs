//! Streams between nodes, and from the host to them: who dials whom, and what arrives.

use std::net::SocketAddr;

use storage_node::ConnId;

use super::{
    node::address,
    world::{Event, HOST_PARTY, NODES, World},
};
use crate::streams::{Arrival, Side, StreamEnd, StreamId};

impl World {
    pub(super) fn node_dials(&mut self, node: usize, conn: ConnId, to: SocketAddr) {
        let peer = (0..NODES).find(|peer| address(*peer).parse() == Ok(to));
        let Some(peer) = peer else { return };
        let stream = self.dial(node, peer);
        let end = StreamEnd { stream, side: Side::Dialer };
        if let Some(running) = &mut self.nodes[node].running {
            running.dialled(conn, end);
        }
    }

    pub(super) fn dial(&mut self, from: usize, to: usize) -> StreamId {
        let at = self.now + self.latency();
        let stream = self.streams.dial(from, to, at);
        self.at(at, Event::Pump { stream });
        stream
    }

    /// Where one piece of a stream ends and the next begins means nothing.
    pub(super) fn send(&mut self, from: StreamEnd, mut bytes: Vec<u8>) {
        if self.random.chance(30) {
            let most = u64::try_from(bytes.len()).unwrap_or(0);
            let first = self.random.below(most);
            let rest = bytes.split_off(usize::try_from(first).unwrap_or(0));
            self.send_piece(from, bytes);
            self.send_piece(from, rest);
        } else {
            self.send_piece(from, bytes);
        }
    }

    fn send_piece(&mut self, from: StreamEnd, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.now + self.latency();
        if let Some(at) = self.streams.send(from, bytes, at) {
            self.at(at, Event::Pump { stream: from.stream });
        }
    }

    pub(super) fn close(&mut self, end: StreamEnd) {
        let at = self.now + self.latency();
        if let Some(at) = self.streams.close(end, at) {
            self.at(at, Event::Pump { stream: end.stream });
        }
    }

    /// Delivers what is due, unless the two do not hear each other.
    pub(super) fn pump(&mut self, stream: StreamId) {
        while let Some([a, b]) = self.streams.parties(stream)
            && !self.is_cut(a, b)
            && let Some((end, arrival)) = self.streams.next(stream, self.now)
        {
            let party = if end.side == Side::Dialer { a } else { b };
            if party == HOST_PARTY {
                self.host_hears(stream, &arrival);
            } else {
                self.node_hears(party, end, &arrival);
            }
        }
    }

    fn node_hears(&mut self, node: usize, end: StreamEnd, arrival: &Arrival) {
        let now = self.now;
        let running = self.nodes[node].running.as_mut();
        let is_taken = running.is_some_and(|running| running.arrived(now, end, arrival));
        if *arrival == Arrival::Dialled {
            let at = now + self.latency();
            let told = if is_taken {
                self.streams.accept(end.stream, at)
            } else {
                self.streams.refuse(end.stream, at)
            };
            if let Some(at) = told {
                self.at(at, Event::Pump { stream: end.stream });
            }
        }
        self.turn(node);
    }

    /// Streams of a process that died: the other ends find out, some time later.
    pub(super) fn lose_streams(&mut self, node: usize) {
        let at = self.now + self.latency();
        for (stream, at) in self.streams.kill(node, at, &mut self.random) {
            self.at(at, Event::Pump { stream });
        }
    }

    /// Every stream to a node breaks, that of the host too; both ends find out.
    pub(super) fn drop_connections(&mut self, node: usize) {
        for stream in self.streams.ids() {
            if self.streams.parties(stream).is_none_or(|[_, listener]| listener != node) {
                continue;
            }
            let at = self.now + self.latency();
            if let Some(at) = self.streams.reset(stream, at) {
                self.at(at, Event::Pump { stream });
            }
        }
    }
}
