//! A controller's driver: performs what the brain asks for over the network, and finds out what
//! became of it.

mod commits;

use std::{collections::BTreeMap, rc::Rc};

use model::{InstanceId, Millis, Revision, Time};
use plan::Request;
use ports::{LeaseId, LeaseRequest, StoreError};
use reconcile::{CommitId, Effect, Event, LeaseAnswer, Outcome, RequestId};

use self::commits::Pending;
use crate::{Call, Caller, Ctx, Message, Party, StoreAnswer, StoreOp, Timer, Watched, names};

/// What decides: the real one, or one that was broken on purpose.
pub trait Brain {
    fn handle(&mut self, now: Time, event: Event) -> Vec<Effect>;
    /// When it wants to be woken at the latest.
    fn next_deadline(&self) -> Option<Time>;
    fn is_leader(&self) -> bool;
    /// What is queued, in flight or on its way.
    fn busy_with(&self) -> Option<&'static str>;
    fn world(&self) -> &plan::World;
    fn stats(&self) -> &reconcile::Stats;
}

impl<P: plan::Planner> Brain for reconcile::Reconciler<P> {
    fn handle(&mut self, now: Time, event: Event) -> Vec<Effect> {
        Self::handle(self, now, event)
    }

    fn next_deadline(&self) -> Option<Time> {
        Self::next_deadline(self)
    }

    fn is_leader(&self) -> bool {
        Self::is_leader(self)
    }

    fn busy_with(&self) -> Option<&'static str> {
        Self::busy_with(self)
    }

    fn world(&self) -> &plan::World {
        Self::world(self)
    }

    fn stats(&self) -> &reconcile::Stats {
        Self::stats(self)
    }
}

/// The brain that production has.
pub fn real_brain() -> crate::NewBrain {
    Box::new(|_, instance, seed| {
        Box::new(reconcile::Reconciler::<plan::Rules>::new(reconcile::Config::new(instance, seed)))
    })
}

pub struct Controller {
    pub index: u8,
    pub instance: InstanceId,
    pub brain: Box<dyn Brain>,
    /// Its clock is ahead by this, and behind by that.
    pub ahead: Millis,
    pub behind: Millis,
    calls: BTreeMap<u64, Waiting>,
    commits: BTreeMap<CommitId, Pending>,
    watch: Watch,
    numbers: u64,
    ticks: u64,
    tick_at: Option<Time>,
    /// Words of the brain since they were last taken.
    pub notes: Vec<String>,
}

/// What an answer of the store is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Load,
    Watch,
    Commit(CommitId),
    Look(CommitId),
    Grant,
    Renew(LeaseId),
    Revoke,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Watch {
    #[default]
    None,
    Loading {
        since: Time,
    },
    Running {
        next: Revision,
        incarnation: u32,
    },
}

/// An answer that is not here by then is not waited for.
const CALL_TIMEOUT: Millis = Millis(1_500);

impl core::fmt::Debug for Controller {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Controller(c{})", self.index)
    }
}

impl Controller {
    pub fn start(
        index: u8,
        instance: InstanceId,
        brain: Box<dyn Brain>,
        life: u32,
        ctx: &mut Ctx<'_>,
    ) -> Self {
        let mut controller = Self {
            index,
            instance,
            brain,
            ahead: Millis::ZERO,
            behind: Millis::ZERO,
            calls: BTreeMap::new(),
            commits: BTreeMap::new(),
            watch: Watch::None,
            numbers: u64::from(life) << 32,
            ticks: 0,
            tick_at: None,
            notes: Vec::new(),
        };
        let phase = ctx.random.below(300);
        ctx.wake_in(Millis(phase), Timer::Beat);
        controller.tell(ctx, Event::Tick);
        controller
    }

    pub fn clock(&self, now: Time) -> Time {
        now + self.ahead - self.behind
    }

    /// Lets the brain think, and does what it says.
    pub fn tell(&mut self, ctx: &mut Ctx<'_>, event: Event) {
        let now = self.clock(ctx.now);
        let effects = self.brain.handle(now, event);
        for effect in effects {
            self.perform(ctx, effect);
        }
        let deadline = self.brain.next_deadline();
        if let Some(at) = deadline.filter(|at| self.tick_at.is_none_or(|set| set > *at)) {
            self.ticks += 1;
            self.tick_at = Some(at);
            let span = at.since(self.clock(ctx.now)).max(Millis(1));
            ctx.wake_in(span, Timer::Tick(self.ticks));
        }
    }

    pub fn wake(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::Tick(number) if number == self.ticks => {
                self.tick_at = None;
                self.tell(ctx, Event::Tick);
            }
            Timer::Beat => {
                self.watch_on(ctx);
                ctx.wake_in(Millis(1_000), Timer::Beat);
            }
            Timer::Commit(id) => self.commit_is_late(ctx, id),
            _ => {}
        }
    }

    pub fn handle(&mut self, ctx: &mut Ctx<'_>, from: Party, message: Message) {
        let event = match (from, message) {
            (_, Message::FromStore { call, answer }) => {
                self.on_answer(ctx, call.number, answer);
                return;
            }
            (_, Message::Watched(watched)) => {
                self.on_watched(ctx, watched);
                return;
            }
            (Party::Node(node), Message::Registered(instance)) => {
                let name = names::label(node.0);
                let address = crate::node_process::address(node);
                Event::NodeRegistered { node, name, address, instance }
            }
            (Party::Host(host), Message::HostRegistered { instance, node }) => {
                let name = names::label(host.0);
                let nqn = crate::fakes::host::host_nqn(host);
                Event::HostRegistered { host, name, nqn, node, instance }
            }
            (_, Message::Inventory(inventory)) => {
                Event::Inventory(Box::new(Rc::unwrap_or_clone(inventory)))
            }
            (_, Message::HostInventory(inventory)) => {
                Event::HostInventory(Rc::unwrap_or_clone(inventory))
            }
            (Party::Node(node), Message::Reset(instance)) => Event::NodeClosed { node, instance },
            (Party::Host(host), Message::Reset(instance)) => Event::HostClosed { host, instance },
            (Party::Node(node), Message::Applied(answer)) => Event::NodeAnswered { node, answer },
            (Party::Host(host), Message::HostApplied(answer)) => {
                Event::HostAnswered { host, answer }
            }
            (_, Message::Request { id, request }) => {
                let request = Request::clone(&request);
                Event::Request { id: RequestId(id), request, if_spec: None }
            }
            _ => return,
        };
        self.tell(ctx, event);
    }

    fn perform(&mut self, ctx: &mut Ctx<'_>, effect: Effect) {
        match effect {
            Effect::Load => {
                self.watch = Watch::Loading { since: ctx.now };
                self.ask(ctx, StoreOp::List, Waiting::Load);
            }
            Effect::Commit { id, txn } => self.commit(ctx, id, &txn),
            Effect::GrantLease { ttl } => {
                let ttl = core::time::Duration::from_millis(ttl.0);
                self.ask(ctx, StoreOp::Lease(LeaseRequest::Grant { ttl }), Waiting::Grant);
            }
            Effect::RenewLease { lease } => {
                let request = LeaseRequest::Renew { lease };
                self.ask(ctx, StoreOp::Lease(request), Waiting::Renew(lease));
            }
            Effect::RevokeLease { lease } => {
                let request = LeaseRequest::Revoke { lease };
                self.ask(ctx, StoreOp::Lease(request), Waiting::Revoke);
            }
            Effect::Apply { node, config } => {
                ctx.send(Party::Node(node), Message::Apply(Rc::new(config)));
            }
            Effect::ApplyHost { host, config } => {
                ctx.send(Party::Host(host), Message::ApplyHost(Rc::new(config)));
            }
            // Nobody drills here: targets die by the faults of the run.
            Effect::Strike { .. } => {}
            Effect::Reply { id, reply } => {
                ctx.send(Party::User, Message::Reply { id: id.0, reply });
            }
            Effect::Note { words } => {
                let index = self.index;
                ctx.note(|| format!("c{index}: {words}"));
                self.notes.push(words);
            }
        }
    }

    fn ask(&mut self, ctx: &mut Ctx<'_>, op: StoreOp, waiting: Waiting) {
        self.numbers += 1;
        self.calls.insert(self.numbers, waiting);
        let call = Call { caller: Caller::Controller, number: self.numbers };
        ctx.send(Party::Store, Message::ToStore { call, op });
    }

    fn on_answer(&mut self, ctx: &mut Ctx<'_>, number: u64, answer: StoreAnswer) {
        let Some(waiting) = self.calls.remove(&number) else { return };
        match (waiting, answer) {
            (Waiting::Load, StoreAnswer::Listed { entries, revision, incarnation }) => {
                if !matches!(self.watch, Watch::Loading { .. }) {
                    return;
                }
                self.watch = Watch::Running { next: revision.next(), incarnation };
                self.tell(ctx, Event::Loaded { entries, revision });
                self.watch_on(ctx);
            }
            (Waiting::Watch, StoreAnswer::Watched(watched)) => self.on_watched(ctx, watched),
            (Waiting::Commit(id), StoreAnswer::Committed(result)) => {
                self.on_committed(ctx, id, &result);
            }
            (Waiting::Commit(id), StoreAnswer::Unavailable) => {
                self.conclude(ctx, id, Outcome::Unavailable);
            }
            (Waiting::Look(id), StoreAnswer::Read { entries, revision }) => {
                self.on_look(ctx, id, &entries, revision);
            }
            (Waiting::Grant, StoreAnswer::Lease(Ok(kept))) => {
                self.tell(ctx, Event::Lease(LeaseAnswer::Granted { lease: kept.lease }));
            }
            (Waiting::Renew(lease), StoreAnswer::Lease(Ok(_))) => {
                self.tell(ctx, Event::Lease(LeaseAnswer::Renewed { lease }));
            }
            (Waiting::Renew(lease), StoreAnswer::Lease(Err(StoreError::LeaseEnded { .. }))) => {
                self.tell(ctx, Event::Lease(LeaseAnswer::Ended { lease }));
            }
            (Waiting::Grant | Waiting::Renew(_), _) => {
                self.tell(ctx, Event::Lease(LeaseAnswer::Unavailable));
            }
            _ => {}
        }
    }

    /// Asks for what happened since, so that a lost push is made good.
    fn watch_on(&mut self, ctx: &mut Ctx<'_>) {
        match self.watch {
            Watch::Loading { since } if ctx.now.since(since) > CALL_TIMEOUT => {
                self.watch = Watch::Loading { since: ctx.now };
                self.ask(ctx, StoreOp::List, Waiting::Load);
            }
            Watch::None | Watch::Loading { .. } => {}
            Watch::Running { next, .. } => {
                self.ask(ctx, StoreOp::Watch { from: next }, Waiting::Watch);
            }
        }
        // Calls that were never answered are forgotten, newest last.
        while self.calls.len() > CALLS_MAX {
            self.calls.pop_first();
        }
    }

    fn on_watched(&mut self, ctx: &mut Ctx<'_>, watched: Watched) {
        let Watch::Running { next, incarnation } = self.watch else { return };
        if watched.compacted || watched.incarnation != incarnation {
            self.watch = Watch::None;
            self.tell(ctx, Event::WatchLost);
            return;
        }
        if watched.from > next {
            self.ask(ctx, StoreOp::Watch { from: next }, Waiting::Watch);
            return;
        }
        for event in watched.events.into_iter().filter(|event| event.revision >= next) {
            self.watch = Watch::Running { next: event.revision.next(), incarnation };
            self.look_in(ctx, &event);
            let (revision, changes) = (event.revision, event.changes);
            self.tell(ctx, Event::Changed { revision, changes });
            if !matches!(self.watch, Watch::Running { .. }) {
                return;
            }
        }
        if let Watch::Running { next, .. } = &mut self.watch {
            *next = (*next).max(watched.next);
        }
    }
}

/// More unanswered calls than this are of a store that was away for long.
const CALLS_MAX: usize = 200;
