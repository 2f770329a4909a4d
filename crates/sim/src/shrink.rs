//! Making a failing script short: what its failure does not need is taken away, line by line and
//! machine by machine, while the same promise breaks.
//!
//! The number of runs is bounded, so that the same failure always shrinks to the same script.

#[cfg(test)]
mod tests;

use model::Millis;

use crate::{DiskSetup, Failure, Kind, NewBrain, Options, Script, run};

/// A script that fails like the one that it was made of, and is not longer.
#[derive(Clone, Debug)]
pub struct Shrunk {
    pub script: Script,
    pub failure: Failure,
    /// How often a shorter script was tried.
    pub tries: usize,
}

/// Enough for a hundred lines to become ten; a run takes a fraction of a second.
const TRIES_MAX: usize = 400;
/// A first look waits only for this, longer than the usual waiting times of the rules. What seems
/// stuck after it is looked at again with all patience before it counts.
const HASTE: Millis = Millis::minutes(12);

/// Shrinks what failed with this seed. `is_over` says when nobody wants to wait any longer.
pub fn shrink(
    seed: u64,
    script: &Script,
    failure: &Failure,
    options: Options,
    brain: &dyn Fn() -> NewBrain,
    is_over: &dyn Fn() -> bool,
) -> Shrunk {
    let failing = |candidate: &Script, patience: Option<Millis>| {
        let report = run(seed, candidate, brain(), Options { patience, ..options });
        report.failure.filter(|found| found.is_like(failure))
    };
    let is_hasty = failure.kind == Kind::NoProgress && failing(script, Some(HASTE)).is_some();
    let mut last = failure.clone();
    let (script, tries) = minimise(until_broken(script, failure), TRIES_MAX, &mut |candidate| {
        if is_over() || (is_hasty && failing(candidate, Some(HASTE)).is_none()) {
            return false;
        }
        let found = failing(candidate, None);
        let is_same = found.is_some();
        last = found.unwrap_or_else(|| last.clone());
        is_same
    });
    Shrunk { script, failure: last, tries }
}

/// What is said after a promise broke cannot have broken it.
fn until_broken(script: &Script, failure: &Failure) -> Script {
    let mut script = script.clone();
    if failure.kind == Kind::BrokenPromise {
        script.lines.retain(|line| line.at <= failure.at);
    }
    script
}

/// The shortest script found for which `fails` holds, and the number of tries.
fn minimise(
    script: Script,
    tries_max: usize,
    fails: &mut dyn FnMut(&Script) -> bool,
) -> (Script, usize) {
    let mut search = Search { best: script, tries: 0, tries_max, fails };
    search.lines();
    search.machines();
    (search.best, search.tries)
}

struct Search<'a> {
    best: Script,
    tries: usize,
    tries_max: usize,
    fails: &'a mut dyn FnMut(&Script) -> bool,
}

impl Search<'_> {
    fn attempt(&mut self, candidate: Script) -> bool {
        if self.tries == self.tries_max {
            return false;
        }
        self.tries += 1;
        let holds = (self.fails)(&candidate);
        if holds {
            self.best = candidate;
        }
        holds
    }

    /// Takes away runs of lines, long ones first; single ones until each of them is needed.
    fn lines(&mut self) {
        let mut length = self.best.lines.len().div_ceil(2);
        while length > 0 {
            let removed = self.lines_of(length);
            length = match length {
                1 if removed => 1,
                1 => 0,
                _ => length.div_ceil(2),
            };
        }
    }

    fn lines_of(&mut self, length: usize) -> bool {
        let (mut at, mut removed) = (0, false);
        while at < self.best.lines.len() && self.tries < self.tries_max {
            let mut candidate = self.best.clone();
            let end = (at + length).min(candidate.lines.len());
            candidate.lines.drain(at..end);
            if self.attempt(candidate) {
                removed = true;
            } else {
                at += length;
            }
        }
        removed
    }

    /// Takes away hosts, disks, nodes and controllers that no line speaks of.
    fn machines(&mut self) {
        for host in self.best.setup.hosts.keys().cloned().collect::<Vec<_>>() {
            self.without(&host, |script| drop(script.setup.hosts.remove(&host)));
        }
        for DiskSetup { label, .. } in self.best.setup.disks.clone() {
            self.without(&label, |script| script.setup.disks.retain(|disk| disk.label != label));
        }
        for node in self.best.setup.nodes.keys().cloned().collect::<Vec<_>>() {
            let has_disk = self.best.setup.disks.iter().any(|disk| disk.node == node);
            if !has_disk {
                self.without(&node, |script| drop(script.setup.nodes.remove(&node)));
            }
        }
        while self.best.setup.controllers > 1 {
            let last = format!("c{}", self.best.setup.controllers - 1);
            if !self.without(&last, |script| script.setup.controllers -= 1) {
                break;
            }
        }
    }

    fn without(&mut self, label: &str, remove: impl FnOnce(&mut Script)) -> bool {
        let lines = self.best.lines.iter().map(ToString::to_string);
        let expects = self.best.expects.iter().map(ToString::to_string);
        let hosts = self.best.setup.hosts.values().flatten().cloned();
        let spoken_of = lines.chain(expects).chain(hosts).any(|text| names(&text, label));
        if spoken_of {
            return false;
        }
        let mut candidate = self.best.clone();
        remove(&mut candidate);
        self.attempt(candidate)
    }
}

fn names(text: &str, label: &str) -> bool {
    text.split_whitespace().any(|word| word == label)
}
