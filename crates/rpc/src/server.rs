//! The controller's end: who is connected, what they say, and their membership questions answered.

use std::{net::SocketAddr, sync::Arc};

use model::{Difference, HostInventory, Inventory, NodeId, Revision};
use pki::{Door, Keyring, Peer, Role, Welcomed};
use ports::{EngineError, Memberships};
use serde::Serialize;
use tokio::{
    net::TcpStream,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tracing::{debug, warn};

use crate::{
    FrameError, Hello, HostHello, MembershipAnswer, MembershipAsk, Receiver, Sender, Speaks,
    ToController, ToEngine, ToHost, limits, split,
};

/// One connection of an engine or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

#[derive(Debug)]
pub struct Heard {
    pub session: SessionId,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    /// An engine said who it is; `to` reaches it until it is dropped. Where certificates are asked
    /// for, `peer` has the name that was shown, which is that of the greeting.
    Opened {
        hello: Hello,
        peer: Option<Peer>,
        to: mpsc::Sender<ToEngine>,
    },
    HostOpened {
        hello: HostHello,
        peer: Option<Peer>,
        to: mpsc::Sender<ToHost>,
    },
    Heartbeat,
    HeardThrough(Vec<NodeId>),
    Inventory(Box<Inventory>),
    Difference(Box<Difference>),
    HostInventory(Box<HostInventory>),
    Applied(Result<Revision, EngineError>),
    /// The connection ended: a process that is killed is seen by this, with no timer.
    Closed,
}

/// Serves until the receiver of `heard` is dropped. Membership questions are answered from the
/// first moment on: they wait for no lease and no leader. Where the door asks for certificates, an
/// engine needs one of an engine of its name, and a host one of a host.
pub async fn serve<M: Memberships + 'static>(
    door: impl Into<Door>,
    memberships: impl Fn(&Hello, Option<&Peer>) -> M + Send + Sync + 'static,
    heard: mpsc::Sender<Heard>,
) {
    let Door { listener, keyring } = door.into();
    let memberships = Arc::new(memberships);
    let places = Arc::new(Semaphore::new(limits::SESSIONS_MAX));
    let mut sessions = JoinSet::new();
    let mut next = 0;
    loop {
        let accepted = tokio::select! {
            () = heard.closed() => break,
            Some(_) = sessions.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match (accepted, Arc::clone(&places).try_acquire_owned()) {
            (Ok((stream, from)), Ok(place)) => {
                next += 1;
                let session = Session { id: SessionId(next), heard: heard.clone() };
                let (memberships, keyring) = (Arc::clone(&memberships), keyring.clone());
                sessions.spawn(async move {
                    session.enter(stream, from, keyring, &*memberships).await;
                    drop(place);
                });
            }
            (Ok((_, from)), Err(_)) => warn!(%from, "too many connections, one refused"),
            (Err(error), _) => {
                // Out of descriptors, most likely: accepting again at once would only burn CPU.
                warn!(%error, "accepting a connection failed");
                tokio::time::sleep(limits::HEARTBEAT_PERIOD).await;
            }
        }
    }
}

struct Session {
    id: SessionId,
    heard: mpsc::Sender<Heard>,
}

impl Session {
    async fn enter<M: Memberships + 'static>(
        self,
        stream: TcpStream,
        from: SocketAddr,
        keyring: Option<Keyring>,
        memberships: impl Fn(&Hello, Option<&Peer>) -> M + Send + Sync,
    ) {
        match Door::welcome(keyring, stream).await {
            Ok(welcomed) => self.run(welcomed, from, memberships).await,
            // Told to people: it may be one of theirs that cannot get in.
            Err(error) => warn!(%from, %error, "a connection was refused"),
        }
    }

    async fn run<M: Memberships + 'static>(
        self,
        who: Welcomed,
        from: SocketAddr,
        memberships: impl Fn(&Hello, Option<&Peer>) -> M + Send + Sync,
    ) {
        let Ok((mut incoming, outgoing)) = split(who.stream) else { return };
        let first = timeout(limits::HELLO_TIMEOUT, incoming.next()).await;
        if let Ok(Ok(Some(first))) = &first
            && let Some(why) = refusal(who.peer.as_ref(), first)
        {
            let peer = who.peer.map_or_else(|| "nobody known".into(), |peer| peer.to_string());
            return warn!(%from, peer, why, "a connection was refused");
        }
        if let Ok(Ok(Some(first))) = &first
            && let Some(reason) = disagreement(first)
        {
            warn!(%from, reason, "a connection was refused");
            return part(&mut incoming, outgoing, reason).await;
        }
        let end = match first {
            Ok(Ok(Some(ToController::Hello(hello)))) => {
                let (to, queued) = mpsc::channel(limits::BACKLOG);
                let own = Arc::new(memberships(&hello, who.peer.as_ref()));
                // Only the controller holds the session: it ends when the controller lets it go.
                let asks = (to.downgrade(), own);
                let opened = What::Opened { hello, peer: who.peer, to };
                self.converse(opened, &mut incoming, Some(asks), outgoing, queued).await
            }
            Ok(Ok(Some(ToController::HostHello(hello)))) => {
                let (to, queued) = mpsc::channel(limits::BACKLOG);
                let opened = What::HostOpened { hello, peer: who.peer, to };
                // Only engines own membership records.
                let nothing: Option<(_, Arc<M>)> = None;
                self.converse(opened, &mut incoming, nothing, outgoing.retyped(), queued).await
            }
            other => return debug!(%from, ?other, "a connection did not say who it is"),
        };
        match end {
            Ok(()) => {}
            Err(error) if error.is_lasting() => {
                warn!(%from, %error, "a connection failed; if its version is newer, upgrade this");
            }
            Err(error) => debug!(%from, %error, "a connection failed"),
        }
        self.tell(What::Closed).await;
    }

    async fn converse<M: Memberships + 'static, T: Serialize>(
        &self,
        opened: What,
        incoming: &mut Receiver<ToController>,
        asks: Option<(mpsc::WeakSender<ToEngine>, Arc<M>)>,
        outgoing: Sender<T>,
        queued: mpsc::Receiver<T>,
    ) -> Result<(), FrameError> {
        if !self.tell(opened).await {
            return Ok(());
        }
        // Whichever ends first ends both: a connection that only listens is of no use.
        tokio::select! {
            end = self.listen(incoming, asks) => end,
            end = talk(outgoing, queued) => match end {
                Ok(outgoing) => {
                    hear_out(incoming).await;
                    drop(outgoing);
                    Ok(())
                }
                Err(error) => Err(error),
            },
        }
    }

    async fn listen<M: Memberships + 'static>(
        &self,
        incoming: &mut Receiver<ToController>,
        membership: Option<(mpsc::WeakSender<ToEngine>, Arc<M>)>,
    ) -> Result<(), FrameError> {
        let mut asks = JoinSet::new();
        while let Some(message) = incoming.next_known().await? {
            while asks.try_join_next().is_some() {}
            let what = match message {
                ToController::Heartbeat => What::Heartbeat,
                ToController::HeardThrough(nodes) => What::HeardThrough(nodes),
                ToController::Inventory(inventory) => What::Inventory(inventory),
                ToController::Difference(difference) => What::Difference(difference),
                ToController::HostInventory(inventory) => What::HostInventory(inventory),
                ToController::Applied(answer) => What::Applied(answer),
                ToController::Ask { call, ask } => {
                    let Some((to, memberships)) = membership.clone() else { return Ok(()) };
                    asks.spawn(async move {
                        let answer = answer(&*memberships, ask).await;
                        // Who is gone, or was refused meanwhile, gets no answer.
                        if let Some(to) = to.upgrade() {
                            let _ = to.send(ToEngine::Answer { call, answer }).await;
                        }
                    });
                    continue;
                }
                ToController::Hello(_) | ToController::HostHello(_) => return Ok(()),
            };
            if !self.tell(what).await {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn tell(&self, what: What) -> bool {
        self.heard.send(Heard { session: self.id, what }).await.is_ok()
    }
}

/// Why nobody may begin like this, or not the owner of this certificate.
fn refusal(peer: Option<&Peer>, first: &ToController) -> Option<&'static str> {
    let (role, name) = match first {
        ToController::Hello(hello) => (Role::Engine, &hello.name),
        ToController::HostHello(hello) => (Role::Host, &hello.name),
        _ => return Some("it did not say who it is"),
    };
    // Targets let in who has the name of a host: one that stands for all of them, or for none,
    // would open its volumes to anybody.
    if let ToController::HostHello(hello) = first
        && !(hello.nqn.starts_with("nqn.") && hello.nqn.len() <= limits::NQN_LENGTH_MAX)
    {
        return Some("its NVMe name is none");
    }
    let speaks_for_itself = |peer: &Peer| peer.role == role && peer.name == *name;
    (!peer.is_none_or(speaks_for_itself)).then_some("it speaks for another")
}

/// Why the two sides do not understand each other.
fn disagreement(first: &ToController) -> Option<String> {
    match first {
        ToController::Hello(hello) => Speaks::OWN.disagreement(hello.speaks, "engine"),
        ToController::HostHello(hello) => Speaks::OWN.disagreement(hello.speaks, "host"),
        _ => None,
    }
}

/// Tells the other side why, and lets it hang up: closing over what it still sends would take the
/// words from it. A host reads the same ones.
async fn part(
    incoming: &mut Receiver<ToController>,
    mut outgoing: Sender<ToEngine>,
    reason: String,
) {
    // It is told again when it comes again.
    let refused = ToEngine::Refused { reason };
    if let Ok(Ok(())) = timeout(limits::HELLO_TIMEOUT, outgoing.send(&refused)).await {
        hear_out(incoming).await;
    }
}

/// Waits for the other side to hang up, and heeds nothing that it still says.
async fn hear_out(incoming: &mut Receiver<ToController>) {
    let _ = timeout(limits::HELLO_TIMEOUT, async {
        while incoming.next_known().await?.is_some() {}
        Ok::<(), FrameError>(())
    })
    .await;
}

async fn talk<T: Serialize>(
    mut outgoing: Sender<T>,
    mut queued: mpsc::Receiver<T>,
) -> Result<Sender<T>, FrameError> {
    #[cfg(feature = "next-build")]
    outgoing.send_news().await?;
    while let Some(message) = queued.recv().await {
        outgoing.send(&message).await?;
    }
    Ok(outgoing)
}

async fn answer<M: Memberships>(memberships: &M, ask: MembershipAsk) -> MembershipAnswer {
    match ask {
        MembershipAsk::Read { volume } => {
            let found = memberships.read(volume).await;
            MembershipAnswer::Read(found.map(|record| {
                record.map(|record| {
                    let revision = record.revision;
                    (Box::new(record), revision)
                })
            }))
        }
        MembershipAsk::Swap { mut record, read_at } => {
            record.revision = read_at;
            MembershipAnswer::Swapped(memberships.swap(&record).await)
        }
    }
}

#[cfg(test)]
mod tests;
