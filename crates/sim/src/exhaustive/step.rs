//! What may happen next in a small world, and doing it.

use mirror::{Input, Output, ReplicaOutput, StoreAnswer, StoreRequest};

use super::{
    disk::{Ailment, Version},
    host::What,
    shared::Shared,
    wire::Wire,
    world::{HOST, Store, World, name, replica_id, site_of},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The next request of a wire's lane arrives, or its end.
    ToReplica {
        wire: usize,
        lane: usize,
    },
    ToTarget(usize),
    /// A slow disk ends a write.
    Disk {
        site: usize,
        at: usize,
    },
    /// The store does what it was asked, or its answer arrives.
    Store(usize),
    /// The store's answer is lost; the commit happened, or may happen later.
    Unknown {
        target: usize,
        is_applied: bool,
    },
    /// A commit that nobody waits for any more arrives.
    Late(usize),
    Write {
        target: usize,
        block: usize,
    },
    Resend {
        target: usize,
        block: usize,
    },
    Read {
        target: usize,
        block: usize,
    },
    Flush(usize),
    Switch,
    Crash(usize),
    Power {
        site: usize,
        choice: usize,
    },
    Restart {
        site: usize,
        keeps: bool,
    },
    /// A copy of the disk is kept.
    Image {
        site: usize,
        is_cached: bool,
    },
    /// The copy takes the place of the disk, while no process has it.
    SetBack {
        site: usize,
    },
    Cut(usize),
    Ail {
        site: usize,
        ailment: Ailment,
    },
    HostLoss(usize),
    Stop(usize),
    Snapshot,
    Tick,
}

impl World {
    /// Everything that may happen now; what goes on by itself first.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::with_capacity(16);
        self.progress(&mut actions);
        self.wishes(&mut actions);
        self.faults(&mut actions);
        actions
    }

    pub(super) fn progress(&self, actions: &mut Vec<Action>) {
        for (index, wire) in self.wires.iter().enumerate() {
            for lane in 0..2 {
                let is_end = lane == 0 && wire.target_gone && wire.is_empty();
                if !wire.replica_gone && (!wire.lanes[lane].is_empty() || is_end) {
                    actions.push(Action::ToReplica { wire: index, lane });
                }
            }
            if !wire.target_gone && (!wire.answers.is_empty() || wire.replica_gone) {
                actions.push(Action::ToTarget(index));
            }
        }
        for (site, state) in self.sites.iter().enumerate() {
            actions.extend((0..state.doing.len()).map(|at| Action::Disk { site, at }));
        }
        for (index, target) in self.targets.iter().enumerate() {
            if target.machine.is_some() && target.store != Store::Idle {
                actions.push(Action::Store(index));
            }
        }
    }

    fn wishes(&self, actions: &mut Vec<Action>) {
        let newest = self.targets.iter().rposition(|target| target.host.is_some());
        for (target, state) in self.targets.iter().enumerate() {
            let is_used = self.left.both_paths || Some(target) == newest;
            if state.host.is_none() || !is_used {
                continue;
            }
            for block in 0..self.left.blocks {
                self.wishes_of(target, block, actions);
            }
            let is_flushing = self.host.is_asking(|what| matches!(what, What::Flush { .. }));
            if self.left.flushes > 0 && !is_flushing {
                actions.push(Action::Flush(target));
            }
        }
    }

    fn wishes_of(&self, target: usize, block: usize, actions: &mut Vec<Action>) {
        let told = &self.host.blocks[block];
        let is_writing = self
            .host
            .is_asking(|what| matches!(what, What::Write { block: other, .. } if *other == block));
        if self.left.writes > 0 && !is_writing {
            actions.push(Action::Write { target, block });
        }
        if told.is_open && !is_writing {
            actions.push(Action::Resend { target, block });
        }
        let is_reading = self.host.is_asking(|what| matches!(what, What::Read { .. }));
        if self.left.reads > 0 && !is_reading {
            actions.push(Action::Read { target, block });
        }
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        let left = &self.left;
        for (target, state) in self.targets.iter().enumerate() {
            if state.machine.is_none() {
                continue;
            }
            if left.unknown_outcomes > 0
                && matches!(state.store, Store::Asked(StoreRequest::Swap(_)))
            {
                actions.push(Action::Unknown { target, is_applied: true });
                actions.push(Action::Unknown { target, is_applied: false });
            }
            if left.target_crashes > 0 {
                actions.push(Action::Crash(target));
            }
            if left.host_losses > 0 && state.host.is_some() {
                actions.push(Action::HostLoss(target));
            }
            if left.stops > 0 && state.item.serve {
                actions.push(Action::Stop(target));
            }
        }
        let late = self.targets.iter().enumerate().filter(|(_, target)| target.late.is_some());
        actions.extend(late.map(|(index, _)| Action::Late(index)));
        if left.switchovers > 0 {
            actions.push(Action::Switch);
        }
        for (site, state) in self.sites.iter().enumerate() {
            if left.power_losses > 0 {
                let choices = state.disk.after_power_loss().len();
                actions.extend((0..choices).map(|choice| Action::Power { site, choice }));
            }
            if left.ailments > 0 && state.disk.ailment.is_none() {
                let all = [Ailment::Full, Ailment::Sync, Ailment::Media];
                actions.extend(all.map(|ailment| Action::Ail { site, ailment }));
            }
            if left.set_backs > 0 {
                self.images(site, actions);
            }
            if left.restarts > 0 {
                actions.push(Action::Restart { site, keeps: true });
                if !state.doing.is_empty() {
                    actions.push(Action::Restart { site, keeps: false });
                }
            }
        }
        if left.cuts > 0 {
            let open = self.wires.iter().enumerate().filter(|(_, wire)| !wire.target_gone);
            actions.extend(open.map(|(index, _)| Action::Cut(index)));
        }
        if left.ticks > 0 {
            actions.push(Action::Tick);
        }
        if left.snapshots > 0 {
            actions.push(Action::Snapshot);
        }
    }

    pub(super) fn apply(&mut self, action: Action) {
        match action {
            Action::ToReplica { wire, lane } => self.deliver_request(wire, lane),
            Action::ToTarget(wire) => self.deliver_answer(wire),
            Action::Disk { site, at } => {
                let (id, session, op) = self.sites[site].doing.remove(at);
                self.disk_done(site, id, session, &op);
            }
            Action::Store(target) => self.ask_store(target),
            Action::Unknown { target, is_applied } => self.lose_answer(target, is_applied),
            Action::Late(target) => {
                if let Some(record) = self.targets[target].late.take() {
                    self.commit(target, *record);
                }
            }
            Action::Write { .. } | Action::Resend { .. } | Action::Read { .. } => {
                self.host_acts(action);
            }
            Action::Flush(_) => self.host_acts(action),
            Action::Switch => {
                self.left.switchovers -= 1;
                self.start_target();
            }
            Action::Crash(target) => self.crash(target),
            Action::Power { site, choice } => self.lose_power(site, choice),
            Action::Restart { site, keeps } => self.restart(site, keeps),
            Action::Image { site, is_cached } => self.take_image(site, is_cached),
            Action::SetBack { site } => self.set_back(site),
            Action::Cut(wire) => self.cut(wire),
            Action::Ail { site, ailment } => {
                self.left.ailments -= 1;
                self.sites[site].disk.ailment = Some(ailment);
                self.host.has_excuse = true;
            }
            Action::HostLoss(target) => self.host_loss(target),
            Action::Stop(target) => {
                self.left.stops -= 1;
                self.targets[target].item.serve = false;
                let item = self.targets[target].item.clone();
                self.tell_target(target, Input::Config(item));
            }
            Action::Snapshot => self.want_snapshot(),
            Action::Tick => {
                self.left.ticks -= 1;
                self.now += 1;
                for target in 0..self.targets.len() {
                    self.tell_target(target, Input::Tick);
                }
            }
        }
        self.tidy();
    }

    /// The config of the newest target wants it; those of later ones will.
    fn want_snapshot(&mut self) {
        self.left.snapshots -= 1;
        self.wanted.push(self.host.blocks.iter().map(|block| block.acked).collect());
        let number = u128::try_from(self.wanted.len()).unwrap_or(0);
        let Some(newest) = self.targets.len().checked_sub(1) else { return };
        self.targets[newest].item.snapshots.push(super::world::snapshot(number));
        let item = self.targets[newest].item.clone();
        self.tell_target(newest, Input::Config(item));
    }

    fn deliver_request(&mut self, index: usize, lane: usize) {
        let wire = &mut self.wires[index];
        let (site, session) = (wire.site, wire.id());
        let mut out = Vec::new();
        if let Some((tag, request)) = wire.lanes[lane].pop_front() {
            wire.is_accepted = true;
            self.sites[site].machine.request(session, tag, request, &mut out);
        } else {
            wire.lose_replica();
            self.sites[site].machine.closed(session, &mut out);
        }
        self.replica_put(site, out);
    }

    fn deliver_answer(&mut self, index: usize) {
        let wire = &mut self.wires[index];
        let (target, child, session) = (wire.target, replica_id(wire.site), wire.session);
        let input = if let Some((tag, answer)) = wire.answers.pop_front() {
            Input::Answer { child, session, tag, answer }
        } else {
            wire.lose_target();
            Input::ChildClosed { child, session }
        };
        self.tell_target(target, input);
    }

    pub(super) fn tell_target(&mut self, index: usize, input: Input<Version>) {
        let now = self.time();
        let Some(machine) = &mut self.targets[index].machine else { return };
        let mut out = Vec::new();
        machine.handle(now, input, &mut out);
        self.target_put(index, out);
    }

    pub(super) fn target_put(&mut self, index: usize, outputs: Vec<Output<Version>>) {
        for output in outputs {
            match output {
                Output::Open { child, session, .. } => {
                    let wire = Wire::new(index, site_of(child), session);
                    self.wires.push(Shared::new(wire));
                }
                Output::Close { child, session } => {
                    if let Some(wire) = self.wire(index, site_of(child), session) {
                        wire.lose_target();
                    }
                }
                Output::Send { child, session, tag, request } => {
                    if let Some(wire) = self.wire(index, site_of(child), session)
                        && !wire.replica_gone
                    {
                        wire.push(tag, request);
                    }
                }
                Output::Reply(reply) => {
                    let is_current = self.targets[index].host == Some(reply.session);
                    if is_current && let Some(words) = self.host.told(index, &reply) {
                        self.break_promise(words);
                    }
                }
                Output::CloseHost { session } => {
                    if self.targets[index].host == Some(session) {
                        self.targets[index].host = None;
                        self.host.disconnected(index);
                    }
                }
                Output::AskStore(request) => self.targets[index].store = Store::Asked(request),
                Output::Notice(mirror::Notice::Serving) => self.connect(index),
                Output::Seen | Output::Notice(_) => {}
            }
        }
    }

    fn connect(&mut self, index: usize) {
        let session = self.targets[index].sessions;
        self.targets[index].sessions += 1;
        self.targets[index].host = Some(session);
        self.tell_target(index, Input::HostOpened { session, host: HOST });
    }

    pub(super) fn replica_put(&mut self, site: usize, outputs: Vec<ReplicaOutput<Version>>) {
        for output in outputs {
            match output {
                ReplicaOutput::Disk { id, session, op } => {
                    let is_write =
                        matches!(op, pool::Request::Write { .. } | pool::Request::Zero { .. });
                    if self.left.slow_disks && is_write {
                        self.sites[site].doing.push((id, session, op));
                    } else {
                        self.disk_done(site, id, session, &op);
                    }
                }
                ReplicaOutput::Reply { session, tag, answer } => {
                    if matches!(answer, mirror::Answer::Fenced(_)) {
                        let fenced = &mut self.sites[site].fenced;
                        *fenced = (*fenced).max(Self::epoch_of(session));
                    }
                    let wire = self.wires.iter_mut().find(|w| w.site == site && w.id() == session);
                    if let Some(wire) = wire
                        && !wire.target_gone
                        && !wire.replica_gone
                    {
                        wire.answers.push_back((tag, answer));
                    }
                }
                ReplicaOutput::Close { session } => {
                    let wire = self.wires.iter_mut().find(|w| w.site == site && w.id() == session);
                    if let Some(wire) = wire {
                        wire.lose_replica();
                    }
                }
            }
        }
    }

    fn disk_done(
        &mut self,
        site: usize,
        id: u64,
        session: Option<u64>,
        op: &pool::Request<Version>,
    ) {
        let is_write = matches!(op, pool::Request::Write { .. } | pool::Request::Zero { .. });
        let is_old =
            session.is_some_and(|session| Self::epoch_of(session) < self.sites[site].fenced);
        if is_write && is_old {
            self.break_promise(format!("a fenced target changes {}", name(site)));
        }
        let result = self.sites[site].disk.run(op);
        let mut out = Vec::new();
        self.sites[site].machine.done(id, result, &mut out);
        self.replica_put(site, out);
    }

    fn ask_store(&mut self, target: usize) {
        match std::mem::replace(&mut self.targets[target].store, Store::Idle) {
            Store::Idle => {}
            Store::Asked(StoreRequest::Read) => {
                let answer = StoreAnswer::Record((*self.record).clone());
                self.targets[target].store = Store::Answer(Box::new(answer));
            }
            Store::Asked(StoreRequest::Swap(record)) => {
                let answer = self.commit(target, *record);
                self.targets[target].store = Store::Answer(Box::new(answer));
            }
            Store::Answer(answer) => self.tell_target(target, Input::Store(*answer)),
        }
    }

    fn commit(&mut self, target: usize, record: model::Membership) -> StoreAnswer {
        if self.record.revision != record.revision || self.record.epoch != record.epoch {
            return StoreAnswer::Conflict;
        }
        let is_claim = record.owner.is_some() && self.record.owner.is_none();
        if is_claim && record.unflushed_lost && !self.record.unflushed_lost {
            self.judge_loss(&record);
        }
        let revision = self.record.revision.next();
        let before = (*self.record).clone();
        self.record = Shared::new(record);
        self.record.revision = revision;
        self.note_set_back(is_claim, &before);
        if is_claim && self.record.unflushed_lost {
            self.host.warned(target);
        }
        StoreAnswer::Committed(revision)
    }

    /// Writes may be called lost only if power was, at every replica that was reached.
    fn judge_loss(&mut self, record: &model::Membership) {
        let is_intact = |(index, site): (usize, &Shared<super::world::Site>)| {
            // One that is not in use may be an older image: more flushed by another counts more.
            let flushed = |site: &super::world::Site| site.disk.header.flushed;
            let others = self.sites.iter().filter(|other| flushed(other) > flushed(site));
            record.is_recorded_healthy(replica_id(index))
                && others.count() == 0
                && site.disk.header.is_intact(pool::Boot(u128::from(site.boots)))
        };
        let is_sticky = self.record.resync_source.is_some();
        if !self.lost_power {
            self.break_promise("writes are called lost though no power was");
        } else if !is_sticky && self.sites.iter().enumerate().any(is_intact) {
            self.break_promise("writes are called lost though an intact replica has them");
        }
    }

    fn lose_answer(&mut self, target: usize, is_applied: bool) {
        self.left.unknown_outcomes -= 1;
        let store = std::mem::replace(&mut self.targets[target].store, Store::Idle);
        let Store::Asked(StoreRequest::Swap(record)) = store else { return };
        if is_applied {
            self.commit(target, *record);
        } else {
            self.targets[target].late = Some(record);
        }
        self.targets[target].store = Store::Answer(Box::new(StoreAnswer::Unknown));
    }

    fn host_acts(&mut self, action: Action) {
        let (target, (tag, command)) = match action {
            Action::Write { target, block } => {
                self.left.writes -= 1;
                (target, self.host.write(target, block))
            }
            Action::Resend { target, block } => (target, self.host.send(target, block)),
            Action::Read { target, block } => {
                self.left.reads -= 1;
                (target, self.host.read(target, block))
            }
            Action::Flush(target) => {
                self.left.flushes -= 1;
                (target, self.host.flush(target))
            }
            _ => return,
        };
        let Some(session) = self.targets[target].host else { return };
        self.tell_target(target, Input::Command { session, tag, command });
    }

    fn crash(&mut self, target: usize) {
        self.left.target_crashes -= 1;
        let state = &mut self.targets[target];
        state.machine = None;
        state.host = None;
        if let Store::Asked(StoreRequest::Swap(record)) =
            std::mem::replace(&mut state.store, Store::Idle)
        {
            state.late = Some(record);
        }
        self.host.disconnected(target);
        for wire in self.wires.iter_mut().filter(|wire| wire.target == target) {
            wire.lose_target();
        }
    }

    fn lose_power(&mut self, site: usize, choice: usize) {
        self.left.power_losses -= 1;
        self.lost_power = true;
        let state = &mut self.sites[site];
        let left = state.disk.after_power_loss().swap_remove(choice);
        state.disk.lose_power(left);
        state.boots += 1;
        state.doing.clear();
        self.reimport(site);
    }

    fn restart(&mut self, site: usize, keeps: bool) {
        self.left.restarts -= 1;
        let doing = std::mem::take(&mut self.sites[site].doing);
        if keeps {
            for (_, _, op) in doing {
                let _ = self.sites[site].disk.run(&op);
            }
        }
        self.reimport(site);
    }

    pub(super) fn reimport(&mut self, site: usize) {
        let state = &mut self.sites[site];
        state.imports += 1;
        let (disk, boots, imports) = (state.disk.clone(), state.boots, state.imports);
        self.sites[site].machine = self.import(site, &disk, boots, imports);
        for wire in self.wires.iter_mut().filter(|w| w.site == site && w.is_accepted) {
            wire.lose_replica();
            wire.answers.clear();
        }
    }

    /// The target notices first; what it sent may still arrive.
    fn cut(&mut self, index: usize) {
        self.left.cuts -= 1;
        let wire = &mut self.wires[index];
        let (target, child, session) = (wire.target, replica_id(wire.site), wire.session);
        wire.lose_target();
        self.tell_target(target, Input::ChildClosed { child, session });
    }

    fn host_loss(&mut self, target: usize) {
        self.left.host_losses -= 1;
        let Some(session) = self.targets[target].host.take() else { return };
        self.host.disconnected(target);
        self.tell_target(target, Input::HostClosed { session });
        if self.is_serving(target) {
            self.connect(target);
        }
    }
}
