//! The host: asks through every path that it has, and compares what it is told with what it knows.

use std::collections::BTreeMap;

use block::{Buffer, Extent};
use mirror::{Command, HostFault, HostReply, HostResult, Input};

use super::{
    oracle::filled,
    world::{Event, HOST, WINDOWS, World},
};

#[derive(Debug, Default)]
pub(super) struct Host {
    /// Sessions, each with the epoch of its target.
    sessions: BTreeMap<u64, u64>,
    last_session: u64,
    /// By tag.
    pub(super) asked: BTreeMap<u64, Asked>,
    last_tag: u64,
    /// It asks nothing new.
    pub(super) is_resting: bool,
    /// Blocks of commands that were answered well.
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) flushes: u64,
}

#[derive(Debug)]
pub(super) struct Asked {
    epoch: u64,
    session: u64,
    at: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Write { extent: Extent, number: u64, is_durable: bool },
    Read { extent: Extent, floors: Vec<[u64; 8]> },
    Flush { acked: Vec<u64> },
}

/// A command is held for 20 s at most.
const PATIENCE: u64 = 22_000_000;
/// More than two of a target's looks at what is idle.
const WHILE: u64 = 7_500_000;
const ASKED_MOST: usize = 12;

impl World {
    pub(super) fn host_acts(&mut self) {
        let delay = self.random.between(300, 5_000);
        self.after(delay, Event::Host);
        self.host_connects();
        let now = self.now;
        let late = self.host.asked.values().find(|asked| now - asked.at > PATIENCE);
        if let Some(Asked { epoch, what, .. }) = late {
            let words = format!("target {epoch} leaves a host without an answer: {what:?}");
            return self.breaks("10", words);
        }
        if self.host.is_resting {
            return;
        }
        let waits = self.host.asked.values().any(|asked| now - asked.at > 3_000_000);
        if self.random.chance(if waits { 5 } else { 1 }) {
            self.host_gives_up();
        }
        if self.host.asked.len() < ASKED_MOST {
            self.host_asks();
        }
    }

    /// To whatever serves, also to what is old.
    fn host_connects(&mut self) {
        let has = |epoch: u64| self.host.sessions.values().any(|by| *by == epoch);
        let new = self
            .targets
            .iter()
            .find(|(epoch, site)| *site.machine.phase() == mirror::Phase::Serving && !has(**epoch));
        let Some(epoch) = new.map(|(epoch, _)| *epoch) else { return };
        if !self.random.chance(100) {
            return;
        }
        self.host.last_session += 1;
        let session = self.host.last_session;
        self.host.sessions.insert(session, epoch);
        self.tell(epoch, Input::HostOpened { session, host: HOST });
    }

    fn host_gives_up(&mut self) {
        let oldest = self.host.asked.values().min_by_key(|asked| asked.at);
        let Some(session) = oldest.map(|asked| asked.session) else { return };
        let Some(epoch) = self.host.sessions.get(&session).copied() else { return };
        self.note(|| format!("the host gives up its path to target {epoch}"));
        self.forget_session(session);
        self.tell(epoch, Input::HostClosed { session });
    }

    fn forget_session(&mut self, session: u64) {
        self.host.sessions.remove(&session);
        self.host.asked.retain(|_, asked| asked.session != session);
    }

    fn pick_path(&mut self) -> Option<(u64, u64)> {
        let paths: Vec<_> = self.host.sessions.iter().map(|(s, e)| (*s, *e)).collect();
        let newest = paths.iter().copied().max_by_key(|(_, epoch)| *epoch)?;
        if self.random.chance(800) { Some(newest) } else { self.random.pick(&paths).copied() }
    }

    /// Few blocks, far apart and side by side: regions, clusters and each other are met.
    fn pick_extent(&mut self) -> Extent {
        let any = *self.random.pick(WINDOWS).unwrap_or(&Extent::new(0, 1));
        let window = self.host_keeps_to().unwrap_or(any);
        let start = window.start + self.random.below(u64::from(window.blocks));
        let most = window.end() - start;
        let blocks = self.random.between(1, 5).min(most);
        Extent::new(start, u32::try_from(blocks).unwrap_or(1))
    }

    /// Every other while it stays in one place, so that the rest is idle and is called clean.
    fn host_keeps_to(&self) -> Option<Extent> {
        let span = self.now / WHILE;
        let index = usize::try_from(span / 2).unwrap_or(0) % WINDOWS.len();
        (!span.is_multiple_of(2)).then(|| WINDOWS[index])
    }

    fn host_asks(&mut self) {
        let Some((session, epoch)) = self.pick_path() else { return };
        let extent = self.pick_extent();
        let is_busy = self.host.asked.values().any(|asked| match &asked.what {
            What::Write { extent: other, .. } => other.overlaps(&extent),
            _ => false,
        });
        let drawn = self.random.below(100);
        let (what, command) = match drawn {
            0..40 if is_busy => return,
            0..40 => {
                let is_zero = drawn < 8;
                let fua = drawn.is_multiple_of(8);
                let number = self.oracle.issue(extent, is_zero, epoch);
                let command = if is_zero {
                    Command::Zero { extent, fua }
                } else {
                    let data = filled(number, extent.blocks);
                    Command::Write { extent, data, fua }
                };
                (What::Write { extent, number, is_durable: fua }, command)
            }
            40..92 => {
                let floors = self.oracle.floors(extent);
                (What::Read { extent, floors }, Command::Read { extent })
            }
            _ => (What::Flush { acked: self.oracle.acked_now() }, Command::Flush),
        };
        self.host.last_tag += 1;
        let tag = self.host.last_tag;
        let asked = Asked { epoch, session, at: self.now, what };
        self.host.asked.insert(tag, asked);
        self.tell(epoch, Input::Command { session, tag, command });
    }

    pub(super) fn host_told(&mut self, epoch: u64, reply: HostReply<Buffer>) {
        let Some(asked) = self.host.asked.remove(&reply.tag) else {
            return self.breaks("10", "a command is answered that nobody waits for");
        };
        let has_reason = self.counts.faults.keys().any(|kind| {
            matches!(
                *kind,
                "sync fails" | "writes fail" | "reads fail" | "pool full" | "all full" | "snapshot"
            )
        });
        match (asked.what, reply.result) {
            (What::Write { extent, number, is_durable }, HostResult::Done) => {
                self.host.writes += 1;
                self.oracle.acked(extent, number, is_durable);
            }
            (What::Write { extent, number, .. }, HostResult::Failed(fault))
                if has_reason && fault != HostFault::OutOfRange =>
            {
                self.note(|| format!("write {number} fails: {fault:?}"));
                self.oracle.failed(extent, number);
            }
            (What::Read { extent, floors }, HostResult::Data(data)) => {
                self.host.reads += 1;
                let result = self.oracle.read(extent, &floors, data.bytes(), epoch);
                self.check("2", result);
            }
            (What::Read { .. }, HostResult::Failed(HostFault::Unreadable)) if has_reason => {}
            (What::Flush { acked }, HostResult::Done) => {
                self.host.flushes += 1;
                let result = self.oracle.flushed(&acked, epoch);
                self.check("1", result);
            }
            (What::Flush { .. }, HostResult::Failed(fault)) => {
                self.note(|| format!("a flush through target {epoch} fails: {fault:?}"));
                if !self.oracle.flush_failed(epoch) && !has_reason {
                    self.breaks("10", "a flush fails without a reason");
                }
            }
            (what, result) => {
                self.breaks("10", format!("{what:?} ends in {result:?} without a reason"));
            }
        }
    }

    /// The target sends this host away.
    pub(super) fn host_closed(&mut self, _epoch: u64, session: u64) {
        self.forget_session(session);
    }

    pub(super) fn host_lost_target(&mut self, epoch: u64) {
        let gone: Vec<u64> =
            self.host.sessions.iter().filter(|(_, e)| **e == epoch).map(|(s, _)| *s).collect();
        for session in gone {
            self.forget_session(session);
        }
    }

    /// A path to the newest target, and nothing unanswered.
    pub(super) fn host_is_quiet(&self) -> bool {
        self.host.asked.is_empty()
    }
}
