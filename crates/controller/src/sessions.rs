//! Who is connected: from streams to events, and from configs to streams.

use std::collections::BTreeMap;

use model::{EngineError, Epoch, HostConfig, HostId, InstanceId, NodeConfig, NodeId, VolumeId};
use plan::World;
use reconcile::{Event, is_record_of};
use rpc::{Heard, Hello, HostHello, SessionId, ToEngine, ToHost, What};
use tokio::sync::mpsc;
use tracing::{info, warn};

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: BTreeMap<SessionId, Peer>,
    /// The newest session of each.
    nodes: BTreeMap<NodeId, SessionId>,
    hosts: BTreeMap<HostId, SessionId>,
}

#[derive(Debug)]
enum Peer {
    Node { node: NodeId, instance: InstanceId, to: mpsc::Sender<ToEngine>, whole: Whole },
    Host { host: HostId, instance: InstanceId, to: mpsc::Sender<ToHost> },
}

/// Whether an engine was asked for its whole inventory, which has not come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    Known,
    Asked,
}

impl Sessions {
    /// What the brain must hear of it.
    pub(crate) fn heard(&mut self, world: &World, heard: Heard) -> Vec<Event> {
        let Heard { session, what } = heard;
        match what {
            What::Opened { hello, peer, to } => {
                let known = world.node(hello.node).map(|view| view.record.meta.name.as_str());
                if is_another(peer.as_ref(), known, &hello.node.to_string()) {
                    warn!(node = %hello.node, ?peer, "an engine was refused: the node is another");
                    let reason = another("node", &hello.node, peer.as_ref());
                    // With the last sender the session ends.
                    let _ = to.try_send(ToEngine::Refused { reason });
                    return Vec::new();
                }
                vec![self.node_opened(session, hello, to)]
            }
            What::HostOpened { hello, peer, to } => {
                let known = world.hosts.get(&hello.host).map(|view| &*view.record.meta.name);
                if is_another(peer.as_ref(), known, &hello.host.to_string()) {
                    warn!(host = %hello.host, ?peer, "a host was refused: the host is another");
                    let reason = another("host", &hello.host, peer.as_ref());
                    let _ = to.try_send(ToHost::Refused { reason });
                    return Vec::new();
                }
                vec![self.host_opened(session, hello, to)]
            }
            What::Closed => self.closed(session).into_iter().collect(),
            // Who was refused says nothing about others either.
            What::HeardThrough(_) if !self.open.contains_key(&session) => Vec::new(),
            What::HeardThrough(nodes) => {
                let known = nodes.into_iter().filter(|node| world.nodes.contains_key(node));
                known.map(|node| Event::HeardThrough { node }).collect()
            }
            what => {
                let Some(peer) = self.open.get_mut(&session) else { return Vec::new() };
                peer.said(world, what).into_iter().collect()
            }
        }
    }

    fn node_opened(
        &mut self,
        session: SessionId,
        hello: Hello,
        to: mpsc::Sender<ToEngine>,
    ) -> Event {
        let Hello { node, name, address, instance, version, .. } = hello;
        info!(%node, name, version, "engine connected");
        self.nodes.insert(node, session);
        self.open.insert(session, Peer::Node { node, instance, to, whole: Whole::Known });
        Event::NodeRegistered { node, name, address, instance }
    }

    fn host_opened(
        &mut self,
        session: SessionId,
        hello: HostHello,
        to: mpsc::Sender<ToHost>,
    ) -> Event {
        let HostHello { host, name, nqn, node, instance, version, .. } = hello;
        info!(%host, name, version, "host connected");
        self.hosts.insert(host, session);
        self.open.insert(session, Peer::Host { host, instance, to });
        Event::HostRegistered { host, name, nqn, node, instance }
    }

    /// A session that another one has followed says nothing by its end.
    fn closed(&mut self, session: SessionId) -> Option<Event> {
        match self.open.remove(&session)? {
            Peer::Node { node, instance, .. } => {
                info!(%node, "engine disconnected");
                let newest = self.nodes.get(&node) == Some(&session);
                newest.then(|| self.nodes.remove(&node))?;
                Some(Event::NodeClosed { node, instance })
            }
            Peer::Host { host, instance, .. } => {
                info!(%host, "host disconnected");
                let newest = self.hosts.get(&host) == Some(&session);
                newest.then(|| self.hosts.remove(&host))?;
                Some(Event::HostClosed { host, instance })
            }
        }
    }

    /// Its record is gone. An engine that is connected all the same greets anew when it dials
    /// again, and is a new node then; on this session it would never be heard.
    pub(crate) fn let_go(&mut self, node: NodeId) {
        if let Some(session) = self.nodes.remove(&node) {
            self.open.remove(&session);
            info!(%node, "engine let go: its record is gone");
        }
    }

    /// Sends a config; what the brain must hear if that cannot be.
    pub(crate) fn apply(&mut self, node: NodeId, config: NodeConfig) -> Option<Event> {
        let session = self.nodes.get(&node).and_then(|session| self.open.get(session));
        let sent = match session {
            Some(Peer::Node { to, .. }) => to.try_send(ToEngine::Apply(Box::new(config))).is_ok(),
            _ => false,
        };
        let answer = Err(unreachable());
        (!sent).then_some(Event::NodeAnswered { node, answer })
    }

    /// Sent once: a drill that does not arrive has not happened, and whoever asked sees that.
    pub(crate) fn strike(&mut self, node: NodeId, volume: VolumeId, epoch: Epoch) {
        let session = self.nodes.get(&node).and_then(|session| self.open.get(session));
        if let Some(Peer::Node { to, .. }) = session
            && to.try_send(ToEngine::Strike { volume, epoch }).is_err()
        {
            warn!(%node, %volume, "a drill did not reach its engine");
        }
    }

    pub(crate) fn apply_host(&mut self, host: HostId, config: HostConfig) -> Option<Event> {
        let session = self.hosts.get(&host).and_then(|session| self.open.get(session));
        let sent = match session {
            Some(Peer::Host { to, .. }) => to.try_send(ToHost::Apply(Box::new(config))).is_ok(),
            _ => false,
        };
        let answer = Err(unreachable());
        (!sent).then_some(Event::HostAnswered { host, answer })
    }
}

impl Peer {
    /// Nobody speaks for another: what names another node, host or process than that of the
    /// session's greeting is dropped.
    fn said(&mut self, world: &World, what: What) -> Option<Event> {
        match (self, what) {
            (Self::Node { node, instance, .. }, What::Heartbeat) => {
                Some(Event::Heartbeat { node: *node, instance: *instance })
            }
            (Self::Node { node, instance, whole, .. }, What::Inventory(inventory)) => {
                *whole = Whole::Known;
                let own = (inventory.node, inventory.instance) == (*node, *instance);
                own.then_some(Event::Inventory(inventory))
            }
            (Self::Node { node, instance, to, whole }, What::Difference(difference)) => {
                if (difference.node, difference.instance) != (*node, *instance) {
                    return None;
                }
                let known = world.node(*node).and_then(|view| view.inventory.as_ref());
                let fits = known.is_some_and(|known| {
                    known.instance == *instance
                        && (known.sequence == difference.base
                            || known.sequence >= difference.sequence)
                });
                // A heartbeat, as far as it goes; the whole is asked for once.
                if !fits && *whole == Whole::Known && to.try_send(ToEngine::Inventory).is_ok() {
                    *whole = Whole::Asked;
                }
                Some(Event::Difference(*difference))
            }
            (Self::Node { node, .. }, What::Applied(answer)) => {
                Some(Event::NodeAnswered { node: *node, answer })
            }
            (Self::Host { host, instance, .. }, What::Heartbeat) => {
                Some(Event::HostHeartbeat { host: *host, instance: *instance })
            }
            (Self::Host { host, instance, .. }, What::HostInventory(inventory)) => {
                let own = (inventory.host, inventory.instance) == (*host, *instance);
                own.then_some(Event::HostInventory(*inventory))
            }
            (Self::Host { host, .. }, What::Applied(answer)) => {
                Some(Event::HostAnswered { host: *host, answer })
            }
            (peer, what) => {
                warn!(?peer, ?what, "a word out of place");
                None
            }
        }
    }
}

/// Whether a certificate is for another than the record of this id.
fn is_another(peer: Option<&pki::Peer>, known: Option<&str>, id: &str) -> bool {
    let (Some(peer), Some(known)) = (peer, known) else { return false };
    !is_record_of(&peer.name, known, &id)
}

fn another(kind: &str, id: &impl std::fmt::Display, peer: Option<&pki::Peer>) -> String {
    let name = peer.map_or("", |peer| peer.name.as_str());
    format!(
        "{kind} {id} is on record under another name than {name:?}, which the certificate is for: \
         use the certificate of that {kind}, or an id of its own"
    )
}

fn unreachable() -> EngineError {
    EngineError::Unreachable { reason: "it is not connected, or does not keep up".into() }
}

#[cfg(test)]
mod tests;
