//! What every part of a shard may use: the time, the queue between parts, and what goes out.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::time::Duration;

use block::Buffer;
use model::{PoolId, ReplicaId, Time, VolumeId};

use crate::{
    NodeParams,
    desired_config::DesiredConfig,
    effect::{ConnId, Effect, LogEvent, TargetKey},
    injected_fault::InjectedFaults,
    message::Message,
    nvme_port::NvmePort,
    slab::Slab,
    targets::LinkConn,
};

/// Whose connection it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConnOwner {
    Port(nvme::target::ConnId),
    Link(LinkConn),
}

/// Something that an inventory tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Pool(PoolId),
    Replica(ReplicaId),
    Target(VolumeId),
}

#[derive(Debug)]
pub(crate) struct ShardContext {
    pub(crate) params: NodeParams,
    /// Since the node began, on a monotonic clock; the same for a whole turn.
    pub(crate) now: Duration,
    pub(crate) port: NvmePort,
    pub(crate) conns: Slab<ConnOwner>,
    pub(crate) desired: DesiredConfig,
    pub(crate) faults: InjectedFaults,
    pub(crate) messages: VecDeque<Message>,
    pub(crate) effects: VecDeque<Effect>,
    /// The machine may differ from the config: look again before the turn ends.
    pub(crate) needs_settling: bool,
    /// What may differ from what was reported last.
    pub(crate) touched: Vec<Subject>,
    /// Compare with the last report before the turn ends, and not with the next tick.
    pub(crate) needs_report: bool,
    /// Look at the clock no later than then.
    pub(crate) next_tick: Duration,
    pub(crate) is_stopping: bool,
    /// Reused from turn to turn.
    pub(crate) replica_outputs: Vec<mirror::ReplicaOutput<Buffer>>,
    pub(crate) target_outputs: Vec<mirror::Output<Buffer>>,
    #[cfg(feature = "flaws")]
    pub(crate) audit: Vec<crate::AuditEvent>,
}

impl ShardContext {
    pub(crate) fn new(params: NodeParams, now: Duration) -> Self {
        Self {
            desired: DesiredConfig::new(params.node, params.instance),
            port: NvmePort::new(&params.advertised),
            params,
            now,
            conns: Slab::default(),
            faults: InjectedFaults::default(),
            touched: Vec::new(),
            needs_report: false,
            messages: VecDeque::new(),
            effects: VecDeque::new(),
            needs_settling: false,
            next_tick: now,
            is_stopping: false,
            replica_outputs: Vec::new(),
            target_outputs: Vec::new(),
            #[cfg(feature = "flaws")]
            audit: Vec::new(),
        }
    }

    /// The time as mirrors count it.
    pub(crate) fn time(&self) -> Time {
        let millis = self.now.as_secs().saturating_mul(1_000);
        Time(millis.saturating_add(self.now.subsec_millis().into()))
    }

    pub(crate) fn put(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn log(&mut self, event: LogEvent) {
        self.effects.push_back(Effect::Log(event));
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    pub(crate) fn tell_target(&mut self, target: TargetKey, input: mirror::Input<Buffer>) {
        self.send(Message::TargetInput { target, input: Box::new(input) });
    }

    pub(crate) fn new_conn(&mut self, owner: ConnOwner) -> ConnId {
        ConnId(self.conns.insert(owner))
    }

    /// It may differ from its last report. `is_touched` is the subject's own mark, so that each is
    /// listed once.
    pub(crate) fn touch(&mut self, is_touched: &mut bool, subject: Subject) {
        if !core::mem::replace(is_touched, true) {
            self.touched.push(subject);
        }
    }

    pub(crate) fn wake_by(&mut self, at: Duration) {
        self.next_tick = self.next_tick.min(at);
    }
}
