//! What must be true.

use core::fmt;

use super::words::Words;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// As many healthy copies as asked for.
    Healthy {
        volume: String,
    },
    Degraded {
        volume: String,
    },
    NoVolume {
        volume: String,
    },
    /// Exactly so many healthy copies.
    Copies {
        volume: String,
        count: usize,
    },
    Path {
        host: String,
        volume: String,
    },
    NoPath {
        host: String,
        volume: String,
    },
    Target {
        volume: String,
        node: String,
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
    /// Some request was refused with these words.
    Refused {
        words: String,
    },
}

impl Expect {
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        Ok(match words.word("what is expected")? {
            "volume" => {
                let volume = words.label("a volume")?;
                match words.word("healthy or degraded")? {
                    "healthy" => Self::Healthy { volume },
                    "degraded" => Self::Degraded { volume },
                    other => return Err(format!("a volume is not {other:?}")),
                }
            }
            "no" => match words.word("volume or path")? {
                "volume" => Self::NoVolume { volume: words.label("a volume")? },
                "path" => {
                    let host = words.label("a host")?;
                    Self::NoPath { host, volume: words.label("a volume")? }
                }
                other => return Err(format!("no {other:?} can be expected")),
            },
            "copies" => {
                let volume = words.label("a volume")?;
                Self::Copies { volume, count: words.number("a number")? }
            }
            "path" => {
                let host = words.label("a host")?;
                Self::Path { host, volume: words.label("a volume")? }
            }
            "target" => {
                let volume = words.label("a volume")?;
                words.expect("on")?;
                Self::Target { volume, node: words.label("a node")? }
            }
            "readonly" => Self::ReadOnly,
            "wait" => {
                let volume = words.label("a volume")?;
                Self::Wait { volume, wait: words.word("a wait")?.to_owned() }
            }
            "event" => Self::Event { words: words.remainder() },
            "refused" => Self::Refused { words: words.remainder() },
            other => return Err(format!("{other:?} cannot be expected")),
        })
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy { volume } => write!(f, "volume {volume} healthy"),
            Self::Degraded { volume } => write!(f, "volume {volume} degraded"),
            Self::NoVolume { volume } => write!(f, "no volume {volume}"),
            Self::Copies { volume, count } => write!(f, "copies {volume} {count}"),
            Self::Path { host, volume } => write!(f, "path {host} {volume}"),
            Self::NoPath { host, volume } => write!(f, "no path {host} {volume}"),
            Self::Target { volume, node } => write!(f, "target {volume} on {node}"),
            Self::ReadOnly => f.write_str("readonly"),
            Self::Wait { volume, wait } => write!(f, "wait {volume} {wait}"),
            Self::Event { words } => write!(f, "event {words}"),
            Self::Refused { words } => write!(f, "refused {words}"),
        }
    }
}
