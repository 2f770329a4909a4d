//! Connections between machines, as both ends see them.
//!
//! ```text
//!  dialler                       acceptor
//!     │ ── Dial ──────────────────▶ │
//!     │ ◀───────────── Accepted ─── │   or Close
//!     │ ◀──────── Bytes ──────────▶ │   in order, however late
//!     │ ◀──────── Close ──────────▶ │   from either; also the answer to what nobody knows
//! ```
//! A process that is killed resets its connections; one whose machine lost power does not.

use std::{collections::BTreeMap, net::SocketAddr, rc::Rc};

use model::{InstanceId, NodeId};

use crate::{Ctx, Message, Party, StreamEvent, StreamId, StreamPiece};

/// Where a node listens: its id is its address, so that no table is needed.
pub(crate) fn address(node: NodeId) -> String {
    SocketAddr::from((std::net::Ipv6Addr::from_bits(node.0.as_u128()), 8420)).to_string()
}

/// Who listens there.
pub(crate) fn listener(address: SocketAddr) -> Option<NodeId> {
    match address {
        SocketAddr::V6(address) => Some(NodeId::from_u128(address.ip().to_bits())),
        SocketAddr::V4(_) => None,
    }
}

/// The connections of one process, by its own names for them.
#[derive(Debug)]
pub(crate) struct Streams<C> {
    own: InstanceId,
    last: u64,
    by_id: BTreeMap<StreamId, Stream<C>>,
    by_name: BTreeMap<C, StreamId>,
    /// To be sent when the turn is over: many answers go in one piece.
    queued: BTreeMap<C, Vec<u8>>,
}

#[derive(Debug)]
struct Stream<C> {
    peer: Party,
    /// The process at the other end, once it is known.
    process: Option<InstanceId>,
    name: C,
}

/// What came of a piece.
#[derive(Debug)]
pub(crate) enum Heard<C> {
    /// Somebody dials.
    Dialled(StreamId),
    Accepted(C),
    Bytes(C, Rc<[u8]>),
    Closed(C),
}

impl<C: Copy + Ord> Streams<C> {
    pub(crate) fn new(own: InstanceId) -> Self {
        let (by_id, by_name, queued) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { own, last: 0, by_id, by_name, queued }
    }

    pub(crate) fn dial(&mut self, ctx: &mut Ctx<'_>, peer: Party, name: C) {
        self.last += 1;
        let stream = StreamId { dialler: self.own, number: self.last };
        self.insert(stream, Stream { peer, process: None, name });
        send(ctx, peer, stream, StreamEvent::Dial);
    }

    /// The answer to somebody who dialled: under this name, or not at all.
    pub(crate) fn accept(
        &mut self,
        ctx: &mut Ctx<'_>,
        peer: Party,
        stream: StreamId,
        name: Option<C>,
    ) {
        let Some(name) = name else { return send(ctx, peer, stream, StreamEvent::Close) };
        self.insert(stream, Stream { peer, process: Some(stream.dialler), name });
        send(ctx, peer, stream, StreamEvent::Accepted(self.own));
    }

    pub(crate) fn send(&mut self, name: C, pieces: impl Iterator<Item = impl AsRef<[u8]>>) {
        if self.by_name.contains_key(&name) {
            let queued = self.queued.entry(name).or_default();
            pieces.for_each(|piece| queued.extend_from_slice(piece.as_ref()));
        }
    }

    /// Sends what is queued.
    pub(crate) fn flush(&mut self, ctx: &mut Ctx<'_>) {
        for (name, bytes) in core::mem::take(&mut self.queued) {
            self.send_now(ctx, name, bytes);
        }
    }

    fn send_now(&mut self, ctx: &mut Ctx<'_>, name: C, bytes: Vec<u8>) {
        let Some(stream) = self.by_name.get(&name) else { return };
        if let Some(Stream { peer, .. }) = self.by_id.get(stream) {
            send(ctx, *peer, *stream, StreamEvent::Bytes(bytes.into()));
        }
    }

    /// Closes it after everything that is queued. True if it was there.
    pub(crate) fn close(&mut self, ctx: &mut Ctx<'_>, name: C) -> bool {
        if let Some(bytes) = self.queued.remove(&name) {
            self.send_now(ctx, name, bytes);
        }
        let stream = self.by_name.get(&name).copied();
        let Some((stream, gone)) = stream.and_then(|stream| Some((stream, self.remove(stream)?)))
        else {
            return false;
        };
        send(ctx, gone.peer, stream, StreamEvent::Close);
        true
    }

    /// What a piece from the network means here.
    pub(crate) fn receive(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Party,
        piece: StreamPiece,
    ) -> Option<Heard<C>> {
        let StreamPiece { stream, event } = piece;
        let Some(known) = self.by_id.get_mut(&stream) else {
            match event {
                StreamEvent::Dial => return Some(Heard::Dialled(stream)),
                StreamEvent::Close => {}
                // Of an earlier life, or closed since.
                StreamEvent::Accepted(_) | StreamEvent::Bytes(_) => {
                    send(ctx, from, stream, StreamEvent::Close);
                }
            }
            return None;
        };
        let name = known.name;
        match event {
            StreamEvent::Dial => None,
            StreamEvent::Accepted(process) => {
                known.process = Some(process);
                Some(Heard::Accepted(name))
            }
            StreamEvent::Bytes(bytes) => Some(Heard::Bytes(name, bytes)),
            StreamEvent::Close => {
                self.remove(stream);
                Some(Heard::Closed(name))
            }
        }
    }

    /// A process is gone, or nobody is there to be dialled: its connections are over.
    pub(crate) fn reset(&mut self, from: Party, process: InstanceId) -> Vec<C> {
        let is_over =
            |s: &Stream<C>| s.peer == from && s.process.is_none_or(|with| with == process);
        let over = self.by_id.iter().filter(|(_, stream)| is_over(stream));
        let over: Vec<StreamId> = over.map(|(id, _)| *id).collect();
        over.into_iter().filter_map(|id| Some(self.remove(id)?.name)).collect()
    }

    fn insert(&mut self, id: StreamId, stream: Stream<C>) {
        self.by_name.insert(stream.name, id);
        self.by_id.insert(id, stream);
    }

    fn remove(&mut self, id: StreamId) -> Option<Stream<C>> {
        let gone = self.by_id.remove(&id)?;
        self.by_name.remove(&gone.name);
        self.queued.remove(&gone.name);
        Some(gone)
    }
}

fn send(ctx: &mut Ctx<'_>, to: Party, stream: StreamId, event: StreamEvent) {
    ctx.send(to, Message::Stream(StreamPiece { stream, event }));
}
