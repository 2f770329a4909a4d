//! The API on a laboratory: the real rules, and machines that do as they are told at once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod browsers;
mod changes;
mod reads;
mod standby;
mod strangers;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use fixtures::Lab;
use model::{Entry, Event, EventKind, Extra, Revision, Severity};
use plan::{Accepted, Refusal};
use rest::{Away, Backend, Chosen, Client, ClientError, Lead, Problem, Seen, Unread};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

/// A controller that is a laboratory: what is asked for has come true when it answers.
#[derive(Clone, Debug)]
pub struct Bench {
    lab: Arc<Mutex<(Lab, BTreeMap<u64, Event>)>>,
    lead: Lead,
    turns: watch::Sender<u64>,
}

impl Bench {
    pub fn new(scene: &str) -> Self {
        Self::of(Lab::new(scene))
    }

    pub fn of(lab: Lab) -> Self {
        let lead = Lead { is_own: true, is_taken: true, address: None };
        let lab = Arc::new(Mutex::new((lab, BTreeMap::new())));
        Self { lab, lead, turns: watch::Sender::new(0) }
    }

    #[must_use]
    pub fn led_by(mut self, address: Option<String>) -> Self {
        self.lead = Lead { is_own: false, is_taken: address.is_some(), address };
        self
    }

    pub async fn start(&self) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(rest::serve(listener, self.clone(), stop.clone()));
        let client = Client::new(&format!("http://{address}")).unwrap();
        Server { client, address, _stop: stop.drop_guard() }
    }
}

#[derive(Debug)]
pub struct Server {
    pub client: Client,
    pub address: SocketAddr,
    _stop: tokio_util::sync::DropGuard,
}

impl Backend for Bench {
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Seen<'_>) -> T + Send + 'static,
    ) -> Result<T, Away> {
        let lab = self.lab.lock().unwrap();
        let (world, lead) = (&lab.0.world, self.lead.clone());
        let counters = vec![("plans", 7)];
        Ok(look(&Seen { world, events: &lab.1, lead, is_loaded: true, counters }))
    }

    async fn change<T: Send + 'static, E: From<Refusal> + Send + 'static>(
        &self,
        choose: impl FnOnce(&Seen<'_>) -> Result<Chosen<T>, E> + Send + 'static,
    ) -> Result<(T, Accepted), E> {
        let Chosen { request, if_spec, kept } = self.look(choose).await.unwrap()?;
        let mut lab = self.lab.lock().unwrap();
        plan::check_spec(&lab.0.world, request.subject(), if_spec)?;
        lab.0.ask(&request)?;
        lab.0.settle().unwrap();
        let number = u64::try_from(lab.1.len()).unwrap();
        let event = Event {
            at: lab.0.world.now,
            subject: request.subject(),
            name: "x".into(),
            kind: EventKind::Asked,
            words: request.kind().into(),
            severity: Severity::Normal,
            extra: Extra::new(),
        };
        lab.1.insert(number, event);
        self.turns.send_modify(|turn| *turn += 1);
        Ok((kept, Accepted { revision: lab.0.world.revision, words: Vec::new() }))
    }

    fn turns(&self) -> watch::Receiver<u64> {
        self.turns.subscribe()
    }

    async fn records(
        &self,
        _after: Option<String>,
        _limit: usize,
        _at: Option<Revision>,
    ) -> Result<(Vec<Entry>, Revision, Option<String>), Unread> {
        Err(Away { reason: "a laboratory has no store".into() }.into())
    }
}

/// Three nodes with a pool each, a volume, and a host.
pub const SCENE: &str =
    "node a b c; pool a1 b1 c1 100G; host h; volume v 10G x2: a1 healthy, b1 healthy";

pub fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Problem {
    match result {
        Err(ClientError::Refused(problem)) => *problem,
        other => panic!("not refused: {other:?}"),
    }
}
