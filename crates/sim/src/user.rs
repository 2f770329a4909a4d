//! People who ask for things, and ask again until they are answered.

use std::{collections::BTreeMap, rc::Rc};

use model::{Millis, Time};
use plan::{Refusal, Request};

use crate::{Cluster, Message, Party};

/// How long a client waits before it asks again, and how often it does.
const AGAIN_AFTER: Millis = Millis(1_500);
const TRIES: u32 = 40;

#[derive(Debug, Default)]
pub(crate) struct User {
    asked: Vec<Asked>,
    numbers: u64,
    /// Which question an id belongs to.
    ids: BTreeMap<u64, u64>,
    pub(crate) accepted: BTreeMap<&'static str, u64>,
    pub(crate) refused: Vec<String>,
    /// What came with acceptances.
    pub(crate) said: Vec<String>,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    request: Rc<Request>,
    tries: u32,
    next: Time,
}

impl User {
    pub(crate) fn ask(&mut self, cluster: &mut Cluster, request: Request) {
        self.numbers += 1;
        let number = self.numbers;
        let next = cluster.now;
        self.asked.push(Asked { number, request: Rc::new(request), tries: 0, next });
        self.go_on(cluster);
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.asked.iter().map(|asked| asked.next).min()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Takes answers in, and asks again where none came. A client does not know who leads: it asks
    /// one after the other, and some ask all at once.
    pub(crate) fn go_on(&mut self, cluster: &mut Cluster) {
        for (id, reply) in core::mem::take(&mut cluster.replies) {
            let Some(number) = self.ids.get(&id) else { continue };
            let Some(place) = self.asked.iter().position(|asked| asked.number == *number) else {
                continue;
            };
            let kind = self.asked[place].request.kind();
            match reply {
                Ok(reply) => {
                    judge(cluster, &self.asked[place].request);
                    self.said.extend(reply.words.iter().map(|said| format!("{kind}: {said}")));
                    *self.accepted.entry(kind).or_default() += 1;
                    self.asked.remove(place);
                }
                Err(Refusal::NotLeading | Refusal::StoreUnavailable) => {}
                Err(refusal) => {
                    self.refused.push(format!("{kind}: {refusal}"));
                    self.asked.remove(place);
                }
            }
        }
        self.asked.retain(|asked| asked.tries < TRIES);
        let now = cluster.now;
        for asked in self.asked.iter_mut().filter(|asked| asked.next <= now) {
            asked.tries += 1;
            asked.next = now + AGAIN_AFTER;
            for index in 0..cluster.controllers.len() {
                let controller = u8::try_from(index).unwrap_or(u8::MAX);
                self.numbers += 1;
                self.ids.insert(self.numbers, asked.number);
                let message =
                    Message::Request { id: self.numbers, request: Rc::clone(&asked.request) };
                cluster.send(Party::User, Party::Controller(controller), message);
            }
        }
    }
}

/// What was accepted is durable: it is there, or was there and went since.
fn judge(cluster: &mut Cluster, request: &Request) {
    let records = &cluster.records;
    let is_durable = match request {
        // A store that lost its history lost what was accepted.
        _ if cluster.store.incarnation > 0 => true,
        Request::CreateVolume { id, .. } => {
            records.volume(*id).is_some() || records.deleted.contains(id)
        }
        // A create that was sent again, and came late, makes it once more.
        Request::DeleteVolume { volume, .. } => {
            let is_going = |volume: &model::Volume| volume.spec.deleting;
            records.volume(*volume).is_none_or(is_going) || records.deleted.contains(volume)
        }
        _ => true,
    };
    if !is_durable {
        let words = format!("{} was accepted, and no record says so", request.kind());
        cluster.oracle.break_promise("accepted-requests-are-durable", words);
    }
}
