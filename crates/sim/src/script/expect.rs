//! What must be true.

use core::fmt;

use model::Millis;

use super::words::{Span, Words};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The rest is not so.
    No(Box<Self>),
    Volume {
        volume: String,
        state: VolumeState,
    },
    /// Exactly so many healthy copies.
    Copies {
        volume: String,
        count: usize,
    },
    /// Data of the volume lies on the pool's disk, whether or not a record says so.
    Copy {
        volume: String,
        pool: String,
    },
    /// The copies are on nodes with so many different values of this label.
    Spread {
        volume: String,
        label: String,
        count: usize,
    },
    Path {
        host: String,
        volume: String,
    },
    Target {
        volume: String,
        /// Any, if none is named.
        node: Option<String>,
    },
    /// A switchover is in this stage; in any, if none is named.
    Switchover {
        volume: String,
        stage: Option<String>,
    },
    /// The target moved no more often than this.
    Epoch {
        volume: String,
        at_most: u64,
    },
    /// The server of the share is up on this host, and nobody else has the volume mounted.
    Share {
        volume: String,
        host: String,
    },
    /// A write of the volume was acknowledged in the last moments.
    Writes {
        volume: String,
        within: Millis,
    },
    Snapshot {
        snapshot: String,
        state: SnapshotState,
    },
    Pool {
        pool: String,
    },
    Node {
        node: String,
    },
    /// Something is still to be removed there; anywhere, if no node is named.
    Tombstones {
        node: Option<String>,
    },
    /// Rebuilds that are allowed to run just now.
    Rebuilds {
        at_most: usize,
    },
    /// Percent of use between the fullest and the emptiest pool.
    Balance {
        within: u64,
    },
    /// The leader changes nothing, and says why.
    ReadOnly,
    /// A plan of the volume waits for this, by the name of the wait.
    Wait {
        volume: String,
        wait: String,
    },
    /// The journal has an event with these words.
    Event {
        words: String,
    },
    Events {
        at_most: usize,
        words: String,
    },
    /// One of the first so many events with these words is about this resource.
    Early {
        name: String,
        at_most: usize,
        words: String,
    },
    /// Some request was refused with these words.
    Refused {
        words: String,
    },
    /// Some request was accepted with these words.
    Said {
        words: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeState {
    Exists,
    /// As many healthy copies as asked for.
    Healthy,
    Degraded,
    Published,
    /// The last attempt to publish it was withdrawn.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    Exists,
    Ready,
    Failed,
}

const AT_MOST: &str = "at-most";

impl Expect {
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        Ok(match words.word("what is expected")? {
            "no" => Self::No(Box::new(Self::parse(words)?)),
            "volume" => {
                let volume = words.label("a volume")?;
                Self::Volume { volume, state: VolumeState::parse(words)? }
            }
            "snapshot" => {
                let snapshot = words.label("a snapshot")?;
                Self::Snapshot { snapshot, state: SnapshotState::parse(words)? }
            }
            "pool" => Self::Pool { pool: words.label("a pool")? },
            "node" => Self::Node { node: words.label("a node")? },
            "tombstones" => Self::Tombstones { node: on(words)? },
            "rebuilds" => Self::Rebuilds { at_most: at_most(words)? },
            "balance" => {
                words.expect("within")?;
                Self::Balance { within: words.number("a number of percent")? }
            }
            "readonly" => Self::ReadOnly,
            "event" => Self::Event { words: words.remainder() },
            "events" => Self::Events { at_most: at_most(words)?, words: words.remainder() },
            "early" => {
                let name = words.label("a resource")?;
                Self::Early { name, at_most: at_most(words)?, words: words.remainder() }
            }
            "refused" => Self::Refused { words: words.remainder() },
            "said" => Self::Said { words: words.remainder() },
            other => Self::parse_volume(other, words)?,
        })
    }

    fn parse_volume(what: &str, words: &mut Words<'_>) -> Result<Self, String> {
        if what == "path" {
            let host = words.label("a host")?;
            return Ok(Self::Path { host, volume: words.label("a volume")? });
        }
        let known = ["copies", "copy", "spread", "target", "switchover", "epoch", "share"];
        if !known.contains(&what) && what != "writes" && what != "wait" {
            return Err(format!("{what:?} cannot be expected"));
        }
        let volume = words.label("a volume")?;
        Ok(match what {
            "copies" => Self::Copies { volume, count: words.number("a number")? },
            "copy" => {
                words.expect("on")?;
                Self::Copy { volume, pool: words.label("a pool")? }
            }
            "spread" => {
                let label = words.label("a label")?;
                Self::Spread { volume, label, count: words.number("a number")? }
            }
            "target" => Self::Target { volume, node: on(words)? },
            "switchover" => Self::Switchover { volume, stage: words.next().map(str::to_owned) },
            "epoch" => Self::Epoch { volume, at_most: at_most(words)? },
            "share" => {
                words.expect("on")?;
                Self::Share { volume, host: words.label("a host")? }
            }
            "writes" => {
                words.expect("within")?;
                Self::Writes { volume, within: words.span()? }
            }
            _ => Self::Wait { volume, wait: words.word("a wait")?.to_owned() },
        })
    }
}

fn on(words: &mut Words<'_>) -> Result<Option<String>, String> {
    if words.is_next("on") { words.label("a node").map(Some) } else { Ok(None) }
}

fn at_most<T: core::str::FromStr>(words: &mut Words<'_>) -> Result<T, String> {
    words.expect(AT_MOST)?;
    words.number("a number")
}

impl VolumeState {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        Ok(match words.next() {
            None => Self::Exists,
            Some("healthy") => Self::Healthy,
            Some("degraded") => Self::Degraded,
            Some("published") => Self::Published,
            Some("failed") => Self::Failed,
            Some(other) => return Err(format!("a volume is not {other:?}")),
        })
    }
}

impl SnapshotState {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        Ok(match words.next() {
            None => Self::Exists,
            Some("ready") => Self::Ready,
            Some("failed") => Self::Failed,
            Some(other) => return Err(format!("a snapshot is not {other:?}")),
        })
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No(rest) => write!(f, "no {rest}"),
            Self::Volume { volume, state } => write!(f, "volume {volume}{state}"),
            Self::Copies { volume, count } => write!(f, "copies {volume} {count}"),
            Self::Copy { volume, pool } => write!(f, "copy {volume} on {pool}"),
            Self::Spread { volume, label, count } => write!(f, "spread {volume} {label} {count}"),
            Self::Path { host, volume } => write!(f, "path {host} {volume}"),
            Self::Target { volume, node: None } => write!(f, "target {volume}"),
            Self::Target { volume, node: Some(node) } => write!(f, "target {volume} on {node}"),
            Self::Switchover { volume, stage: None } => write!(f, "switchover {volume}"),
            Self::Switchover { volume, stage: Some(stage) } => {
                write!(f, "switchover {volume} {stage}")
            }
            Self::Epoch { volume, at_most } => write!(f, "epoch {volume} {AT_MOST} {at_most}"),
            Self::Share { volume, host } => write!(f, "share {volume} on {host}"),
            Self::Writes { volume, within } => {
                write!(f, "writes {volume} within {}", Span(*within))
            }
            Self::Snapshot { snapshot, state } => write!(f, "snapshot {snapshot}{state}"),
            Self::Pool { pool } => write!(f, "pool {pool}"),
            Self::Node { node } => write!(f, "node {node}"),
            Self::Tombstones { node: None } => f.write_str("tombstones"),
            Self::Tombstones { node: Some(node) } => write!(f, "tombstones on {node}"),
            Self::Rebuilds { at_most } => write!(f, "rebuilds {AT_MOST} {at_most}"),
            Self::Balance { within } => write!(f, "balance within {within}"),
            Self::ReadOnly => f.write_str("readonly"),
            Self::Wait { volume, wait } => write!(f, "wait {volume} {wait}"),
            Self::Event { words } => write!(f, "event {words}"),
            Self::Events { at_most, words } => write!(f, "events {AT_MOST} {at_most} {words}"),
            Self::Early { name, at_most, words } => {
                write!(f, "early {name} {AT_MOST} {at_most} {words}")
            }
            Self::Refused { words } => write!(f, "refused {words}"),
            Self::Said { words } => write!(f, "said {words}"),
        }
    }
}

impl fmt::Display for VolumeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "",
            Self::Healthy => " healthy",
            Self::Degraded => " degraded",
            Self::Published => " published",
            Self::Failed => " failed",
        })
    }
}

impl fmt::Display for SnapshotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "",
            Self::Ready => " ready",
            Self::Failed => " failed",
        })
    }
}
