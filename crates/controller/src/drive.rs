//! The loop: it receives, the machine decides, and what it decides is done.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use model::{Change, Key, Revision, Time};
use pki::Door;
use plan::{Accepted, Refusal};
use ports::{Entry, LeaseId, LeaseRequest, Store, StoreError, TxnOutcome};
use reconcile::{CommitId, Effect, Event, LeaseAnswer, Reconciler, RequestId};
use rest::{Chosen, Seen};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    DieAt, Handle, Settings,
    clock::Clock,
    commits::{Commits, Next},
    follow::{Followed, follow, load},
    handle::{Ask, seen},
    journal::Journal,
    limits,
    own_memberships::OwnMemberships,
    sessions::Sessions,
};

/// A controller on a store. `run` drives it.
#[derive(Debug)]
pub struct Controller<S> {
    store: S,
    clock: Clock,
    brain: Reconciler,
    journal: Journal,
    commits: Commits,
    sessions: Sessions,
    requests: BTreeMap<RequestId, oneshot::Sender<Result<Accepted, Refusal>>>,
    next_request: u64,
    lease: Option<LeaseId>,
    calls: JoinSet<Done>,
    follower: Option<Follower>,
    asks: mpsc::Receiver<Ask>,
    turns: watch::Sender<u64>,
    dies_at: Option<DieAt>,
}

#[derive(Debug)]
struct Follower {
    followed: mpsc::Receiver<Followed>,
    /// The next revision that it will show.
    next: Revision,
    task: AbortHandle,
}

/// What a future that was started came to.
#[derive(Debug)]
enum Done {
    Loaded(Vec<Entry>, Revision),
    Committed(CommitId, Result<TxnOutcome, StoreError>),
    Looked(CommitId, Result<(Vec<Entry>, Revision), StoreError>),
    Leased(LeaseRequest, Result<ports::Kept, StoreError>),
    /// A follower or the server of streams ended.
    Ended,
}

/// What was received.
#[derive(Debug)]
enum News {
    Done(Done),
    Followed(Followed),
    Heard(rpc::Heard),
    Ask(Ask),
    Tick,
    Stop,
}

impl<S: Store + Clone + 'static> Controller<S> {
    pub fn new(store: S, settings: &Settings) -> (Self, Handle) {
        let (asks, asked) = mpsc::channel(limits::ASKS_MAX);
        let (turns, turned) = watch::channel(0);
        let controller = Self {
            store,
            clock: Clock::start(),
            brain: Reconciler::new(settings.config()),
            journal: Journal::default(),
            commits: Commits::default(),
            sessions: Sessions::default(),
            requests: BTreeMap::new(),
            next_request: 0,
            lease: None,
            calls: JoinSet::new(),
            follower: None,
            asks: asked,
            turns,
            dies_at: settings.dies_at,
        };
        (controller, Handle { asks, turns: turned })
    }

    /// Drives until it is told to stop; then finishes what it began and gives the lead away.
    ///
    /// Engines' membership questions are answered from the first moment on, by whichever controller
    /// they reach: they wait for no lease.
    pub async fn run(mut self, door: impl Into<Door>, stop: CancellationToken) {
        let door = door.into();
        let (heard, mut hearing) = mpsc::channel(limits::HEARD_MAX);
        let store = self.store.clone();
        let memberships = move |hello: &rpc::Hello, peer: Option<&pki::Peer>| {
            OwnMemberships::new(store.clone(), hello, peer)
        };
        self.calls.spawn(async move {
            rpc::serve(door, memberships, heard).await;
            Done::Ended
        });
        self.think(Event::Tick);
        loop {
            match self.receive(&mut hearing, &stop).await {
                News::Stop => break,
                news => self.take(news),
            }
        }
        drop(hearing);
        self.finish().await;
    }

    async fn receive(
        &mut self,
        hearing: &mut mpsc::Receiver<rpc::Heard>,
        stop: &CancellationToken,
    ) -> News {
        let deadline = self.brain.next_deadline().unwrap_or(Time(u64::MAX));
        let tick = self.clock.instant(deadline);
        let followed = async {
            match &mut self.follower {
                Some(follower) => follower.followed.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => News::Stop,
            Some(done) = self.calls.join_next() => match done {
                Ok(done) => News::Done(done),
                Err(error) => {
                    // Only a replaced follower is ever aborted.
                    if error.is_panic() {
                        warn!(%error, "a task panicked");
                    }
                    News::Done(Done::Ended)
                }
            },
            Some(followed) = followed => News::Followed(followed),
            Some(heard) = hearing.recv() => News::Heard(heard),
            Some(ask) = self.asks.recv() => News::Ask(ask),
            () = sleep_until(tick) => News::Tick,
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Done(done) => self.done(done),
            News::Followed(Followed::Event(event)) => self.changed(event),
            News::Followed(Followed::Lost) => {
                self.follower = None;
                self.think(Event::WatchLost);
            }
            News::Heard(heard) => {
                for event in self.sessions.heard(self.brain.world(), heard) {
                    self.think(event);
                }
            }
            News::Ask(Ask::Look(look)) => look(&self.seen()),
            News::Ask(Ask::Change { choose, reply }) => {
                if let Some(Chosen { request, if_spec, .. }) = choose(&self.seen()) {
                    self.next_request += 1;
                    let id = RequestId(self.next_request);
                    self.requests.insert(id, reply);
                    self.think(Event::Request { id, request, if_spec });
                }
            }
            News::Tick => self.think(Event::Tick),
            News::Stop => {}
        }
    }

    fn seen(&self) -> Seen<'_> {
        seen(&self.brain, &self.journal, self.follower.is_some())
    }

    /// Lets the brain think, and begins what it says.
    fn think(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let quiet = matches!(
                event,
                Event::Tick | Event::Heartbeat { .. } | Event::HostHeartbeat { .. }
            );
            let plans = self.brain.stats().plans;
            let effects = self.brain.handle(self.clock.now(), event);
            if !quiet || !effects.is_empty() || self.brain.stats().plans != plans {
                self.turns.send_modify(|turn| *turn = turn.wrapping_add(1));
            }
            for effect in effects {
                events.extend(self.perform(effect));
            }
        }
    }

    /// Begins an effect; an event if it cannot be begun.
    fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Load => {
                let loading = load(self.store.clone());
                self.calls.spawn(async move {
                    let (entries, revision) = loading.await;
                    Done::Loaded(entries, revision)
                });
            }
            Effect::Commit { id, txn } => {
                let txn = self.commits.begin(id, &txn);
                self.send(id, txn);
            }
            Effect::GrantLease { ttl } => {
                self.lease(LeaseRequest::Grant { ttl: Duration::from_millis(ttl.0) });
            }
            Effect::RenewLease { lease } => {
                self.lease(LeaseRequest::Renew { lease });
            }
            Effect::RevokeLease { lease } => {
                self.lease(LeaseRequest::Revoke { lease });
            }
            Effect::Apply { node, config } => return self.sessions.apply(node, config),
            Effect::ApplyHost { host, config } => return self.sessions.apply_host(host, config),
            Effect::Strike { node, volume, epoch } => self.sessions.strike(node, volume, epoch),
            Effect::Reply { id, reply } => {
                if let Some(to) = self.requests.remove(&id) {
                    // Who asked may have gone.
                    let _ = to.send(reply);
                }
            }
            Effect::Note { words } => info!(step = words, "noted"),
        }
        None
    }

    fn send(&mut self, id: CommitId, txn: Arc<ports::Txn>) {
        let store = self.store.clone();
        self.calls.spawn(async move {
            let answer = timeout(limits::CALL_TIMEOUT, store.commit(&txn)).await;
            let late = StoreError::Unknown { waited: limits::CALL_TIMEOUT };
            Done::Committed(id, answer.unwrap_or(Err(late)))
        });
    }

    fn look(&mut self, id: CommitId, keys: Vec<String>, after: Duration) {
        let store = self.store.clone();
        self.calls.spawn(async move {
            sleep(after).await;
            let answer = timeout(limits::CALL_TIMEOUT, store.read(&keys)).await;
            let late = StoreError::Unknown { waited: limits::CALL_TIMEOUT };
            Done::Looked(id, answer.unwrap_or(Err(late)))
        });
    }

    fn lease(&mut self, request: LeaseRequest) {
        let store = self.store.clone();
        self.calls.spawn(async move {
            let answer = timeout(limits::CALL_TIMEOUT, store.lease(request)).await;
            let late = StoreError::Unknown { waited: limits::CALL_TIMEOUT };
            Done::Leased(request, answer.unwrap_or(Err(late)))
        });
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Loaded(entries, revision) => self.loaded(entries, revision),
            Done::Committed(id, result) => {
                if let Err(error) = &result {
                    warn!(%error, "a commit failed");
                }
                let next = self.commits.answered(id, &result);
                self.go_on(id, next);
            }
            Done::Looked(id, result) => {
                let shown = self.follower.as_ref().map(|follower| follower.next);
                let caught_up = |revision| shown.is_none_or(|next| next > revision);
                let next = self.commits.looked(id, &result, caught_up);
                self.go_on(id, next);
            }
            Done::Leased(request, result) => self.leased(request, &result),
            Done::Ended => {}
        }
    }

    fn go_on(&mut self, id: CommitId, next: Next) {
        match next {
            Next::Conclude(outcome) => self.think(Event::Committed { id, outcome }),
            Next::Unknown(keys) => {
                self.think(Event::Committed { id, outcome: reconcile::Outcome::Unknown });
                self.look(id, keys, Duration::ZERO);
            }
            Next::Look(keys) => self.look(id, keys, Duration::ZERO),
            Next::LookLater(keys) => self.look(id, keys, limits::LOOK_AGAIN),
            Next::Send(txn) => self.send(id, txn),
            Next::Nothing => {}
        }
    }

    fn leased(&mut self, request: LeaseRequest, result: &Result<ports::Kept, StoreError>) {
        let answer = match (request, result) {
            (LeaseRequest::Grant { .. }, Ok(kept)) => {
                self.lease = Some(kept.lease);
                LeaseAnswer::Granted { lease: kept.lease }
            }
            (LeaseRequest::Renew { lease }, Ok(_)) => LeaseAnswer::Renewed { lease },
            (LeaseRequest::Renew { lease }, Err(StoreError::LeaseEnded { .. })) => {
                LeaseAnswer::Ended { lease }
            }
            (LeaseRequest::Revoke { lease }, _) => {
                self.lease = self.lease.filter(|own| *own != lease);
                return;
            }
            (_, Err(error)) => {
                warn!(%error, "the lease was not answered");
                LeaseAnswer::Unavailable
            }
        };
        self.think(Event::Lease(answer));
    }

    fn loaded(&mut self, entries: Vec<Entry>, revision: Revision) {
        info!(%revision, entries = entries.len(), "store loaded");
        let next = revision.next();
        let (to, followed) = mpsc::channel(limits::FOLLOWED_MAX);
        let store = self.store.clone();
        let task = self.calls.spawn(async move {
            follow(store, next, to).await;
            Done::Ended
        });
        if let Some(old) = self.follower.replace(Follower { followed, next, task }) {
            old.task.abort();
        }
        self.journal.load(&entries);
        self.think(Event::Loaded { entries, revision });
    }

    fn changed(&mut self, event: ports::WatchEvent) {
        if let Some(follower) = &mut self.follower {
            follower.next = event.revision.next();
        }
        if self.dies_at.is_some_and(|stage| stage.is_in(&event.changes)) {
            // Nothing is finished and nobody is told: that is what is asked for.
            std::process::abort();
        }
        self.commits.look_in(&event);
        self.journal.change(&event.changes);
        for change in &event.changes {
            if let Change::Deleted { key, .. } = change
                && let Ok(Key::Node(node)) = key.parse()
            {
                self.sessions.let_go(node);
            }
        }
        self.think(Event::Changed { revision: event.revision, changes: event.changes });
    }

    /// Nothing new is begun; what was begun ends; then another controller may lead at once.
    async fn finish(mut self) {
        if let Some(follower) = self.follower.take() {
            follower.task.abort();
        }
        let calls = &mut self.calls;
        let ended = timeout(limits::FINISH_WITHIN, async {
            while let Some(done) = calls.join_next().await {
                if let Ok(Done::Leased(LeaseRequest::Grant { .. }, Ok(kept))) = done {
                    self.lease = Some(kept.lease);
                }
            }
        });
        if ended.await.is_err() {
            warn!("stopped with calls to the store under way");
        }
        if let Some(lease) = self.lease {
            let revoking = self.store.lease(LeaseRequest::Revoke { lease });
            match timeout(limits::CALL_TIMEOUT, revoking).await {
                Ok(Ok(_)) => info!("lead given away"),
                Ok(Err(StoreError::LeaseEnded { .. })) => {}
                Ok(Err(error)) => warn!(%error, "the lead was not given away"),
                Err(_) => warn!("the lead was not given away: no answer in time"),
            }
        }
    }
}
