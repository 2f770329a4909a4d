//! A run's inputs as text: who is there, what happens when, and what must be true at the end.
//!
//! ```text
//! # M-07, LC-5: a volume is deleted while one of its nodes is away, which later returns.
//! controllers 3
//! node n1 zone=a
//! disk p1 on n1 100GiB
//! host h1 on n1
//! 0.500 create pool p1 on n1
//! 12.400 kill engine n1 for 2s
//! 14.000 create volume v9 10GiB x3 thin
//! 60.000 expect volume v9 healthy
//! expect no volume v2
//! ```
//! The same format is generated from a seed, shrunk after a failure, and kept in `cases/`.

mod ask;
mod expect;
mod fault;
#[cfg(test)]
mod tests;
mod words;

use core::fmt;

use model::Millis;

use self::words::Words;
pub use self::{
    ask::{Ask, Wish},
    expect::{Expect, SnapshotState, VolumeState},
    fault::Fault,
};
use crate::{CASE_SEED, DiskSetup, Setup};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// What it shows, with the ids of the behaviours.
    pub notes: Vec<String>,
    /// The seed with which it showed a fault: it decides delays and losses.
    pub seed: Option<u64>,
    pub setup: Setup,
    pub lines: Vec<Line>,
    /// What must be true when everything has settled.
    pub expects: Vec<Expect>,
}

/// Something that happens at a time, counted from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub at: Millis,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Fault(Fault),
    Ask(Ask),
    Expect(Expect),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}: {text:?}")]
pub struct Unreadable {
    pub line: usize,
    pub reason: String,
    pub text: String,
}

impl Script {
    /// The seed to run it with when nobody names another.
    pub fn case_seed(&self) -> u64 {
        self.seed.unwrap_or(CASE_SEED)
    }

    pub fn rolls_back(&self) -> bool {
        let rolls =
            |line: &Line| matches!(line.action, Action::Fault(Fault::StoreRollsBack { .. }));
        self.lines.iter().any(rolls)
    }

    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut script = Self::default();
        for (index, text) in text.lines().enumerate() {
            script.parse_line(text.trim()).map_err(|reason| Unreadable {
                line: index + 1,
                reason,
                text: text.to_owned(),
            })?;
        }
        script.lines.sort_by_key(|line| line.at);
        Ok(script)
    }

    fn parse_line(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(note) = text.strip_prefix('#') {
            self.notes.push(note.trim().to_owned());
            return Ok(());
        }
        let mut words = Words::of(text);
        let first = words.word("something")?;
        if first.starts_with(|c: char| c.is_ascii_digit()) {
            let at = words::time(first).ok_or("not a time like 12.400")?;
            let action = Action::parse(&mut words)?;
            self.lines.push(Line { at, action });
        } else if first == "expect" {
            self.expects.push(Expect::parse(&mut words)?);
        } else {
            self.parse_setup(first, &mut words)?;
        }
        words.end()
    }

    fn parse_setup(&mut self, first: &str, words: &mut Words<'_>) -> Result<(), String> {
        match first {
            "seed" => self.seed = Some(words.number("a seed")?),
            "controllers" => self.setup.controllers = words.number("a number of controllers")?,
            "node" => {
                let label = words.label("a node")?;
                self.setup.nodes.insert(label, words.pairs()?);
            }
            "disk" => {
                let label = words.label("a disk")?;
                words.expect("on")?;
                let node = words.label("a node")?;
                let capacity = words.parsed("a size")?;
                self.setup.disks.push(DiskSetup { label, node, capacity });
            }
            "host" => {
                let label = words.label("a host")?;
                let node = if words.is_next("on") { Some(words.label("a node")?) } else { None };
                self.setup.hosts.insert(label, node);
            }
            _ => return Err("neither a time, nor a part of the cluster, nor expect".into()),
        }
        Ok(())
    }
}

impl Action {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        if words.is_next("expect") {
            return Expect::parse(words).map(Self::Expect);
        }
        match Fault::parse(words)? {
            Some(fault) => Ok(Self::Fault(fault)),
            None => Ask::parse(words).map(Self::Ask),
        }
    }

    /// The name under which it is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.kind(),
            Self::Ask(ask) => ask.kind(),
            Self::Expect(_) => "expect",
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        if let Some(seed) = self.seed {
            writeln!(f, "seed {seed}")?;
        }
        writeln!(f, "controllers {}", self.setup.controllers)?;
        for (node, labels) in &self.setup.nodes {
            writeln!(f, "node {node}{}", words::Pairs(labels))?;
        }
        for DiskSetup { label, node, capacity } in &self.setup.disks {
            writeln!(f, "disk {label} on {node} {}", words::Size(*capacity))?;
        }
        for (host, node) in &self.setup.hosts {
            match node {
                Some(node) => writeln!(f, "host {host} on {node}")?,
                None => writeln!(f, "host {host}")?,
            }
        }
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        for expect in &self.expects {
            writeln!(f, "expect {expect}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.at.0 / 1_000, self.at.0 % 1_000);
        write!(f, "{seconds}.{millis:03} ")?;
        match &self.action {
            Action::Fault(fault) => fault.fmt(f),
            Action::Ask(ask) => ask.fmt(f),
            Action::Expect(expect) => write!(f, "expect {expect}"),
        }
    }
}
