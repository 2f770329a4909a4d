//! The storage node's own connections: hosts and targets that dial it, and replicas that it dials.

use storage_node::Effect;

use super::{
    NodeProcess, now,
    streams::{Heard, listener},
};
use crate::{Ctx, Party, StreamPiece};

impl NodeProcess {
    pub(super) fn stream(&mut self, ctx: &mut Ctx<'_>, from: Party, piece: StreamPiece) {
        let now = now(ctx);
        match self.streams.receive(ctx, from, piece) {
            Some(Heard::Dialled(stream)) => {
                let conn = self.machine.accept(now);
                self.streams.accept(ctx, from, stream, conn);
            }
            Some(Heard::Accepted(conn)) => self.machine.connected(now, conn),
            Some(Heard::Bytes(conn, bytes)) => self.machine.received(now, conn, &bytes),
            Some(Heard::Closed(conn)) => self.machine.closed(now, conn),
            None => {}
        }
    }

    /// True if the node has heard something of it already.
    pub(super) fn connection(&mut self, ctx: &mut Ctx<'_>, effect: Effect) -> bool {
        match effect {
            Effect::Dial { conn, to } => {
                if let Some(node) = listener(to) {
                    self.streams.dial(ctx, Party::Node(node), conn);
                } else {
                    self.machine.closed(now(ctx), conn);
                    return true;
                }
            }
            Effect::Send { conn, outgoing } => {
                self.streams.send(conn, outgoing.pieces(0));
                self.machine.recycle(outgoing);
            }
            Effect::Close(conn) => {
                self.streams.close(ctx, conn);
                self.machine.closed(now(ctx), conn);
                return true;
            }
            _ => {}
        }
        false
    }
}
