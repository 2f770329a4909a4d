//! The side of a node that talks with controllers and the store: registration, configs and their
//! answers, inventories, questions about membership.

use std::{collections::BTreeMap, rc::Rc};

use mirror::{StoreAnswer, StoreRequest};
use model::{EngineError, Inventory, Key, Millis, NodeConfig, Record, Revision, Time, VolumeId};
use ports::{Compare, Expect, Txn, TxnOutcome, Write};
use storage_node::{TargetKey, Ticket};

use super::{NodeProcess, now};
use crate::{Call, Caller, Ctx, Message, Party, StoreOp, Timer};

/// News waits this long for more news to go with it, as in the engine.
const ANNOUNCE_AFTER: Millis = Millis(20);
/// Heartbeats between two inventories that nothing asked for: a lost one is made good.
const INVENTORY_BEATS: u32 = 20;
/// The same for registrations of an engine that nobody configured yet.
const REGISTER_BEATS: u32 = 4;
/// A question that the store leaves open for this long has no answer.
const STORE_TIMEOUT: Millis = Millis(1_500);

#[derive(Debug)]
pub(super) struct Control {
    controllers: u8,
    beats: u32,
    last: u64,
    /// Configs without an answer: who sent them, and when.
    pub(super) applying: BTreeMap<Ticket, (Party, Time)>,
    /// Whom an inventory is for: one controller, or all.
    asked: BTreeMap<Ticket, Option<u8>>,
    questions: BTreeMap<u64, Question>,
    /// What all controllers were told last.
    pub(super) told: Option<Rc<Inventory>>,
    is_announcing: bool,
}

#[derive(Debug)]
struct Question {
    target: TargetKey,
    call: u64,
    since: Time,
}

impl Control {
    pub(super) const fn new(controllers: u8) -> Self {
        Self {
            controllers,
            beats: 0,
            last: 0,
            applying: BTreeMap::new(),
            asked: BTreeMap::new(),
            questions: BTreeMap::new(),
            told: None,
            is_announcing: false,
        }
    }

    const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl NodeProcess {
    /// A connection to this controller is up (again).
    pub fn greet(&mut self, ctx: &mut Ctx<'_>, controller: u8) {
        ctx.send(Party::Controller(controller), Message::Registered(self.instance));
        self.request_inventory(ctx, Some(controller));
        // It is answered in the next turn.
        self.wakes_at = Some(ctx.now + Millis(1));
        ctx.wake_in(Millis(1), Timer::Deadline);
    }

    pub(super) fn register_everywhere(&mut self, ctx: &mut Ctx<'_>) {
        for controller in 0..self.control.controllers {
            ctx.send(Party::Controller(controller), Message::Registered(self.instance));
        }
    }

    pub(super) fn announce(&mut self, ctx: &mut Ctx<'_>) {
        if !core::mem::replace(&mut self.control.is_announcing, true) {
            ctx.wake_in(ANNOUNCE_AFTER, Timer::Inventory);
        }
    }

    pub(super) fn take_inventory(&mut self, ctx: &mut Ctx<'_>) {
        self.request_inventory(ctx, None);
    }

    fn request_inventory(&mut self, ctx: &Ctx<'_>, controller: Option<u8>) {
        let ticket = Ticket(self.control.next());
        self.control.asked.insert(ticket, controller);
        self.machine.request_inventory(now(ctx), ticket);
    }

    pub(super) fn tell(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket, inventory: Inventory) {
        let Some(only) = self.control.asked.remove(&ticket) else { return };
        let inventory = Rc::new(inventory);
        let all = 0..self.control.controllers;
        for controller in all.filter(|controller| only.is_none_or(|only| only == *controller)) {
            ctx.send(Party::Controller(controller), Message::Inventory(inventory.clone()));
        }
        if only.is_none() {
            self.control.is_announcing = false;
            self.control.told = Some(inventory);
        }
    }

    pub(super) fn outdated(&mut self, ctx: &mut Ctx<'_>, sequence: u64) {
        if self.control.told.as_ref().is_none_or(|told| told.sequence <= sequence) {
            self.announce(ctx);
        }
    }

    pub(super) fn apply(&mut self, ctx: &Ctx<'_>, from: Party, config: &NodeConfig) {
        let ticket = Ticket(self.control.next());
        self.control.applying.insert(ticket, (from, ctx.now));
        self.machine.apply(now(ctx), ticket, config.clone());
    }

    pub(super) fn applied(
        &mut self,
        ctx: &mut Ctx<'_>,
        ticket: Ticket,
        result: Result<Revision, EngineError>,
    ) {
        if let Some((from, _)) = self.control.applying.remove(&ticket) {
            ctx.send(from, Message::Applied(result));
        }
    }

    pub(super) fn beat(&mut self, ctx: &mut Ctx<'_>) {
        self.control.beats += 1;
        let told = self.control.told.as_ref().map_or(Revision::ZERO, |told| told.generation);
        if told == Revision::ZERO && self.control.beats.is_multiple_of(REGISTER_BEATS) {
            self.register_everywhere(ctx);
            self.announce(ctx);
        }
        if self.control.beats.is_multiple_of(INVENTORY_BEATS) {
            self.announce(ctx);
        }
        let is_late = |question: &Question| ctx.now.since(question.since) > STORE_TIMEOUT;
        let open = self.control.questions.iter();
        let late: Vec<u64> = open.filter(|(_, q)| is_late(q)).map(|(number, _)| *number).collect();
        for number in late {
            self.answer(ctx, number, StoreAnswer::Unknown);
        }
        self.judge(ctx);
        ctx.wake_in(model::limits::HEARTBEAT_EVERY, Timer::Beat);
    }

    pub(super) fn ask_store(
        &mut self,
        ctx: &mut Ctx<'_>,
        target: TargetKey,
        call: u64,
        request: &StoreRequest,
    ) {
        let number = self.control.next();
        self.control.questions.insert(number, Question { target, call, since: ctx.now });
        let key = Key::Membership(target.volume).to_string();
        let op = match request {
            StoreRequest::Read => StoreOp::Read(vec![key]),
            StoreRequest::Swap(record) => {
                let expect = Expect::ModifiedAt(record.revision);
                let value = Record::Membership(record.clone()).encode();
                StoreOp::Commit(Rc::new(Txn {
                    compares: vec![Compare { key: key.clone(), expect }],
                    writes: vec![Write::Put { key, value, lease: None }],
                }))
            }
        };
        let caller = Caller::Process { instance: self.instance };
        ctx.send(Party::Store, Message::ToStore { call: Call { caller, number }, op });
    }

    pub(super) fn store_answered(
        &mut self,
        ctx: &Ctx<'_>,
        number: u64,
        answer: &crate::StoreAnswer,
    ) {
        let Some(question) = self.control.questions.get(&number) else { return };
        let answer = understood(question.target.volume, answer);
        self.answer(ctx, number, answer);
    }

    fn answer(&mut self, ctx: &Ctx<'_>, number: u64, answer: StoreAnswer) {
        if let Some(Question { target, call, .. }) = self.control.questions.remove(&number) {
            self.machine.store_answered(now(ctx), target, call, answer);
        }
    }
}

/// What the store's answer tells a target.
fn understood(volume: VolumeId, answer: &crate::StoreAnswer) -> StoreAnswer {
    match answer {
        crate::StoreAnswer::Read { entries, .. } => {
            let key = Key::Membership(volume);
            let decode =
                |entry: &ports::Entry| match Record::decode(&key, &entry.value, entry.modified) {
                    Ok(Record::Membership(record)) => Some(StoreAnswer::Record(*record)),
                    _ => None,
                };
            entries.first().and_then(decode).unwrap_or(StoreAnswer::Unknown)
        }
        crate::StoreAnswer::Committed(Ok(TxnOutcome::Committed { revision })) => {
            StoreAnswer::Committed(*revision)
        }
        crate::StoreAnswer::Committed(Ok(TxnOutcome::Refused { .. })) => StoreAnswer::Conflict,
        _ => StoreAnswer::Unknown,
    }
}
