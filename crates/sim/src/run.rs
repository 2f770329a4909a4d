//! One run: a deterministic function of a seed, a script and a brain.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use model::{Millis, Time};
use storage_node::NodeMutation;

use crate::{
    Action, Ask, Cluster, Fault, NewBrain, Script, expect, names,
    node_process::scaled,
    settle::{self, Settled},
    user::User,
};

/// How a run failed; each kind has its own exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Crash,
    BrokenPromise,
    NoProgress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    /// The promise, or what did not end; it stays the same while a script is shrunk.
    pub promise: String,
    pub words: String,
    pub at: Millis,
    pub event: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub events: u64,
    pub simulated: Millis,
    pub faults: BTreeMap<&'static str, u64>,
    pub asks: BTreeMap<&'static str, u64>,
    pub accepted: BTreeMap<&'static str, u64>,
    pub steps: BTreeMap<&'static str, u64>,
    pub writes: u64,
    pub reads: u64,
    pub failure: Option<Failure>,
    pub trace: Vec<String>,
}

impl Failure {
    /// The same promise breaks in the same way.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.kind, &self.promise) == (other.kind, &other.promise)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub trace: bool,
    /// How long the world may take to come to rest, if not as long as ever needed.
    pub patience: Option<Millis>,
    /// A rule that the storage nodes lack.
    pub mutation: Option<NodeMutation>,
    /// The mutant `AskUnchecked`: controllers answer engines' questions about membership whoever
    /// asks.
    pub asks_unchecked: bool,
}

/// Time for an election before the script begins.
const ELECTION: Millis = Millis::seconds(6);

pub fn run(seed: u64, script: &Script, brain: NewBrain, options: Options) -> Report {
    let mut report = Report::default();
    let mut world = None;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let (script, mutation) = (&scaled(script), options.mutation);
        let cluster = world.insert(Cluster::with_mutation(seed, &script.setup, brain, mutation));
        cluster.store.keeps_backups = script.rolls_back();
        cluster.store.asks_unchecked = options.asks_unchecked;
        if options.trace {
            cluster.tracing();
        }
        play(cluster, script, options, &mut report)
    }));
    let mut failure = match ended {
        Ok(outcome) => outcome.err(),
        Err(panic) => Some(Failure {
            kind: Kind::Crash,
            promise: "no-panic".into(),
            words: panic_words(panic.as_ref()),
            at: Millis::ZERO,
            event: 0,
        }),
    };
    if let Some(cluster) = &world {
        report.events = cluster.events;
        report.simulated = cluster.now.since(crate::START);
        report.writes = cluster.oracle.counts.writes;
        report.reads = cluster.oracle.counts.reads;
        report.steps.clone_from(&cluster.steps());
        report.trace = cluster.trace_tail().map(str::to_owned).collect();
        if let Some(failure) = &mut failure {
            failure.at = report.simulated;
            failure.event = cluster.events;
        }
    }
    report.failure = failure;
    report
}

fn panic_words(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

fn play(
    cluster: &mut Cluster,
    script: &Script,
    options: Options,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut user = User::default();
    run_until(cluster, &mut user, cluster.now + ELECTION)?;
    let start = cluster.now;
    label_nodes(cluster, &mut user, script);
    for line in &script.lines {
        run_until(cluster, &mut user, start + line.at)?;
        match &line.action {
            Action::Fault(fault) => {
                *report.faults.entry(fault.kind()).or_default() += 1;
                cluster.inject(fault);
            }
            Action::Ask(ask) => {
                cluster.note(&format!("user: {ask}"));
                *report.asks.entry(ask.kind()).or_default() += 1;
                accept_loss(cluster, ask);
                let request = ask.request(line.at, cluster.now);
                user.ask(cluster, request);
            }
            Action::Expect(expect) => expect::expect(cluster, &user, expect)?,
        }
    }
    let lasting = script.lines.iter().any(|line| is_lasting(&line.action));
    settle::settle(cluster, &mut user, &Settled { lasting, patience: options.patience })?;
    report.accepted.clone_from(&user.accepted);
    for expect in &script.expects {
        expect::expect(cluster, &user, expect)?;
    }
    Ok(())
}

/// Where a machine stands is told once it has registered.
fn label_nodes(cluster: &mut Cluster, user: &mut User, script: &Script) {
    for (node, labels) in script.setup.nodes.iter().filter(|(_, labels)| !labels.is_empty()) {
        let (node, labels) = (node.clone(), labels.clone());
        let request = Ask::LabelNode { node, labels }.request(Millis::ZERO, cluster.now);
        user.ask(cluster, request);
    }
}

/// A recovery that was told to go on without the newest copy may bring an older one back.
fn accept_loss(cluster: &mut Cluster, ask: &Ask) {
    if let Ask::Recover { accept } = ask {
        for volume in accept {
            cluster.oracle.loss_accepted(names::volume(volume));
        }
    }
}

/// Whether something is gone for ever after it, so that a volume may have lost its last copy.
fn is_lasting(action: &Action) -> bool {
    matches!(
        action,
        Action::Fault(
            Fault::PowerOff { down: None, .. }
                | Fault::SwapDisk { .. }
                | Fault::StoreRollsBack { .. }
                | Fault::StoreWiped
                | Fault::FaultPool { span: None, .. }
                | Fault::PullDisk { span: None, .. }
        )
    )
}

/// Runs on, with users asking again, until then or until a promise is broken.
pub(crate) fn run_until(
    cluster: &mut Cluster,
    user: &mut User,
    until: Time,
) -> Result<(), Failure> {
    loop {
        let next = user.next_at().map_or(until, |at| at.min(until));
        let done = cluster.run_until(next.max(cluster.now));
        if let Err(broken) = done {
            return Err(Failure {
                kind: Kind::BrokenPromise,
                promise: broken.promise,
                words: broken.words,
                at: cluster.now.since(crate::START),
                event: cluster.events,
            });
        }
        user.go_on(cluster);
        if cluster.now >= until {
            return Ok(());
        }
    }
}
