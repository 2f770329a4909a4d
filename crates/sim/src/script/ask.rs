//! What users ask for, in the labels of a script.

mod request;

use core::fmt;

use model::{Bytes, Millis};

use super::words::{Pairs, Size, Span, Words};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    CreatePool {
        pool: String,
        node: String,
    },
    DeletePool {
        pool: String,
    },
    ForgetPool {
        pool: String,
    },
    LabelNode {
        node: String,
        labels: std::collections::BTreeMap<String, String>,
    },
    Cordon {
        node: String,
    },
    Uncordon {
        node: String,
    },
    Drain {
        node: String,
    },
    Undrain {
        node: String,
    },
    ForgetNode {
        node: String,
    },
    CreateVolume(Wish),
    DeleteVolume {
        volume: String,
        with_snapshots: bool,
    },
    Resize {
        volume: String,
        size: Bytes,
    },
    Scale {
        volume: String,
        replicas: u8,
    },
    Publish {
        volume: String,
        hosts: Vec<String>,
        within: Millis,
    },
    Unpublish {
        volume: String,
        host: String,
        force: bool,
    },
    /// No consumers: shared no more.
    Share {
        volume: String,
        consumers: Vec<String>,
    },
    Promote {
        volume: String,
    },
    Snapshot {
        snapshot: String,
        volume: String,
        within: Millis,
    },
    DeleteSnapshot {
        snapshot: String,
    },
    Recover {
        accept: Vec<String>,
    },
}

/// A volume as it is wished for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    pub volume: String,
    /// The label, if not given: a name may be used again, a label never.
    pub name: Option<String>,
    pub size: Bytes,
    pub replicas: u8,
    pub thin: bool,
    pub many: bool,
    pub spread: Vec<String>,
    pub affinity: Option<(String, String)>,
    pub group: Option<String>,
    pub from: Option<String>,
    pub rebuild_wait: Option<Millis>,
}

const WITHIN: Millis = Millis::seconds(60);

impl Ask {
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        Ok(match words.word("a request")? {
            "create" => match words.word("pool or volume")? {
                "pool" => {
                    let pool = words.label("a pool")?;
                    words.expect("on")?;
                    Self::CreatePool { pool, node: words.label("a node")? }
                }
                "volume" => Self::CreateVolume(Wish::parse(words)?),
                other => return Err(format!("no {other:?} can be created")),
            },
            "delete" => match words.word("pool, volume or snapshot")? {
                "pool" => Self::DeletePool { pool: words.label("a pool")? },
                "volume" => {
                    let volume = words.label("a volume")?;
                    Self::DeleteVolume { volume, with_snapshots: words.is_next("with-snapshots") }
                }
                "snapshot" => Self::DeleteSnapshot { snapshot: words.label("a snapshot")? },
                other => return Err(format!("no {other:?} can be deleted")),
            },
            "forget" => match words.word("pool or node")? {
                "pool" => Self::ForgetPool { pool: words.label("a pool")? },
                "node" => Self::ForgetNode { node: words.label("a node")? },
                other => return Err(format!("no {other:?} can be forgotten")),
            },
            "label" => {
                let node = words.label("a node")?;
                Self::LabelNode { node, labels: words.pairs()? }
            }
            "cordon" => Self::Cordon { node: words.label("a node")? },
            "uncordon" => Self::Uncordon { node: words.label("a node")? },
            "drain" => Self::Drain { node: words.label("a node")? },
            "undrain" => Self::Undrain { node: words.label("a node")? },
            verb => Self::parse_volume(verb, words)?,
        })
    }

    fn parse_volume(verb: &str, words: &mut Words<'_>) -> Result<Self, String> {
        if verb == "recover" {
            let accept = if words.is_next("accept") { words.labels(&[])? } else { Vec::new() };
            return Ok(Self::Recover { accept });
        }
        if verb == "snapshot" {
            let snapshot = words.label("a snapshot")?;
            words.expect("of")?;
            let volume = words.label("a volume")?;
            return Ok(Self::Snapshot { snapshot, volume, within: within(words)? });
        }
        let volume = words.label("a volume")?;
        Ok(match verb {
            "resize" => Self::Resize { volume, size: words.parsed("a size")? },
            "scale" => Self::Scale { volume, replicas: times(words)? },
            "publish" => {
                words.expect("to")?;
                let hosts = words.labels(&["within"])?;
                Self::Publish { volume, hosts, within: within(words)? }
            }
            "unpublish" => {
                words.expect("from")?;
                let host = words.label("a host")?;
                Self::Unpublish { volume, host, force: words.is_next("by-force") }
            }
            "share" => {
                words.expect("with")?;
                Self::Share { volume, consumers: words.labels(&[])? }
            }
            "unshare" => Self::Share { volume, consumers: Vec::new() },
            "promote" => Self::Promote { volume },
            other => return Err(format!("nobody can ask for {other:?}")),
        })
    }
}

impl Wish {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let volume = words.label("a volume")?;
        let size = words.parsed("a size")?;
        let mut wish = Self { volume, size, replicas: times(words)?, ..Self::default() };
        while let Some(word) = words.next() {
            let value = || word.split_once('=').map(|(_, value)| value.to_owned());
            match word.split('=').next().unwrap_or_default() {
                "thin" => wish.thin = true,
                "many" => wish.many = true,
                "name" => wish.name = value(),
                "spread" => wish.spread.extend(value()),
                "group" => wish.group = value(),
                "from" => wish.from = value(),
                "only" => {
                    let pair = value().unwrap_or_default();
                    let (key, label) = pair.split_once(':').ok_or("not like only=zone:a")?;
                    wish.affinity = Some((key.to_owned(), label.to_owned()));
                }
                "rebuild-wait" => wish.rebuild_wait = Some(words.span()?),
                other => return Err(format!("a volume has no {other:?}")),
            }
        }
        Ok(wish)
    }
}

/// `x3`.
fn times(words: &mut Words<'_>) -> Result<u8, String> {
    let word = words.word("a number of replicas")?;
    let count = word.strip_prefix('x').and_then(|count| count.parse().ok());
    count.ok_or_else(|| "not like x3".into())
}

fn within(words: &mut Words<'_>) -> Result<Millis, String> {
    if words.is_next("within") { words.span() } else { Ok(WITHIN) }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreatePool { pool, node } => write!(f, "create pool {pool} on {node}"),
            Self::DeletePool { pool } => write!(f, "delete pool {pool}"),
            Self::ForgetPool { pool } => write!(f, "forget pool {pool}"),
            Self::LabelNode { node, labels } => write!(f, "label {node}{}", Pairs(labels)),
            Self::Cordon { node } => write!(f, "cordon {node}"),
            Self::Uncordon { node } => write!(f, "uncordon {node}"),
            Self::Drain { node } => write!(f, "drain {node}"),
            Self::Undrain { node } => write!(f, "undrain {node}"),
            Self::ForgetNode { node } => write!(f, "forget node {node}"),
            Self::CreateVolume(wish) => write!(f, "create volume {wish}"),
            Self::DeleteVolume { volume, with_snapshots } => {
                let with = if *with_snapshots { " with-snapshots" } else { "" };
                write!(f, "delete volume {volume}{with}")
            }
            Self::Resize { volume, size } => write!(f, "resize {volume} {}", Size(*size)),
            Self::Scale { volume, replicas } => write!(f, "scale {volume} x{replicas}"),
            Self::Publish { volume, hosts, within } => {
                write!(f, "publish {volume} to {} within {}", hosts.join(" "), Span(*within))
            }
            Self::Unpublish { volume, host, force } => {
                let force = if *force { " by-force" } else { "" };
                write!(f, "unpublish {volume} from {host}{force}")
            }
            Self::Share { volume, consumers } if consumers.is_empty() => {
                write!(f, "unshare {volume}")
            }
            Self::Share { volume, consumers } => {
                write!(f, "share {volume} with {}", consumers.join(" "))
            }
            Self::Promote { volume } => write!(f, "promote {volume}"),
            Self::Snapshot { snapshot, volume, within } => {
                write!(f, "snapshot {snapshot} of {volume} within {}", Span(*within))
            }
            Self::DeleteSnapshot { snapshot } => write!(f, "delete snapshot {snapshot}"),
            Self::Recover { accept } if accept.is_empty() => f.write_str("recover"),
            Self::Recover { accept } => write!(f, "recover accept {}", accept.join(" ")),
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} x{}", self.volume, Size(self.size), self.replicas)?;
        if self.thin {
            f.write_str(" thin")?;
        }
        if self.many {
            f.write_str(" many")?;
        }
        for key in &self.spread {
            write!(f, " spread={key}")?;
        }
        if let Some((key, value)) = &self.affinity {
            write!(f, " only={key}:{value}")?;
        }
        let named = [("name", &self.name), ("group", &self.group), ("from", &self.from)];
        for (word, value) in named {
            if let Some(value) = value {
                write!(f, " {word}={value}")?;
            }
        }
        match self.rebuild_wait {
            Some(wait) => write!(f, " rebuild-wait {}", Span(wait)),
            None => Ok(()),
        }
    }
}
