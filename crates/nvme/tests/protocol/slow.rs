//! A target whose answers take their time.

use std::{collections::BTreeMap, time::Duration};

use nvme::{
    Digests,
    initiator::{Config, Out, Reason, Session},
    target::{self, ConnId, Port},
};

use crate::rig::{config, subsystem, volume};

const SILENCE_MAX: Duration = Duration::from_secs(2);
const ATTACH_MAX: Duration = Duration::from_secs(10);

/// What became of attaching, and when.
type Ended = (Duration, Result<(), Reason>);

/// A host whose every question is answered so late.
struct Slow {
    session: Session,
    port: Port,
    conns: BTreeMap<u16, ConnId>,
    now: Duration,
}

impl Slow {
    fn attach(late: Duration) -> Ended {
        let timeouts = config(Digests::NONE);
        let (attach_timeout, command_timeout) = (SILENCE_MAX, ATTACH_MAX);
        let mut session = Session::new(Config { attach_timeout, command_timeout, ..timeouts });
        session.connect(Duration::ZERO);
        let mut port = Port::new(Vec::new());
        port.add_subsystem(subsystem(volume())).unwrap();
        let mut slow = Self { session, port, conns: BTreeMap::new(), now: Duration::ZERO };
        loop {
            if let Some(ended) = slow.ask() {
                return (slow.now, ended);
            }
            let answers = slow.answers();
            let at = slow.now + late;
            while let Some(due) = slow.session.next_deadline().filter(|due| *due <= at) {
                slow.now = due;
                slow.session.tick(due);
                if let Some(ended) = slow.ask() {
                    return (slow.now, ended);
                }
            }
            slow.now = at;
            for (queue, bytes) in answers {
                slow.session.receive(at, queue, &bytes);
            }
        }
    }

    /// What the host has to say goes over at once.
    fn ask(&mut self) -> Option<Result<(), Reason>> {
        while let Some(out) = self.session.poll() {
            match out {
                Out::Open { queue } => {
                    self.conns.insert(queue, self.port.accept(self.now).unwrap());
                    self.session.opened(self.now, queue);
                }
                Out::Send { queue, outgoing } => {
                    let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
                    self.port.receive(self.now, self.conns[&queue], &bytes);
                }
                Out::Ready(_) => return Some(Ok(())),
                Out::Dead { reason } => return Some(Err(reason)),
                Out::Close { .. } | Out::Done { .. } | Out::Event(_) => {}
            }
        }
        None
    }

    fn answers(&mut self) -> Vec<(u16, Vec<u8>)> {
        let mut answers = Vec::new();
        while let Some(out) = self.port.poll() {
            if let target::Out::Send { conn, outgoing } = out {
                let queue = self.conns.iter().find(|(_, other)| **other == conn).unwrap().0;
                answers.push((*queue, outgoing.pieces(0).flatten().copied().collect()));
            }
        }
        answers
    }
}

/// All of it takes several times as long as a target may be silent.
#[test]
fn a_target_that_answers_slowly_is_attached_to() {
    let (took, ended) = Slow::attach(Duration::from_millis(600));
    assert_eq!(ended, Ok(()));
    assert!(took > SILENCE_MAX * 3, "{took:?}");
}

#[test]
fn a_target_that_is_silent_is_left() {
    let ended = Slow::attach(SILENCE_MAX + Duration::from_millis(1));
    assert_eq!(ended, (SILENCE_MAX, Err(Reason::AttachTimeout)));
}

/// Who answers each time at the last moment could go on for ever.
#[test]
fn attaching_ends_when_a_command_would() {
    let ended = Slow::attach(SILENCE_MAX * 9 / 10);
    assert_eq!(ended, (ATTACH_MAX, Err(Reason::AttachTimeout)));
}
