//! What breaks.

use core::fmt;

use model::Millis;

use super::words::{For, Span, Words};
use crate::{Party, Weather};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process dies, and another one starts after this time.
    Kill {
        party: Party,
        down: Millis,
    },
    /// A machine loses power; for ever, if no time is given.
    PowerOff {
        node: String,
        down: Option<Millis>,
    },
    PowerOn {
        node: String,
    },
    Pause {
        party: Party,
        span: Millis,
    },
    Cut {
        one: Party,
        other: Party,
        span: Millis,
    },
    CutOneWay {
        from: Party,
        to: Party,
        span: Millis,
    },
    Isolate {
        party: Party,
        span: Millis,
    },
    /// Away for half of `every`, again and again.
    Flap {
        node: String,
        every: Millis,
        span: Millis,
    },
    StoreSilent {
        span: Millis,
    },
    StoreRefusing {
        span: Millis,
    },
    StoreSlow {
        by: Millis,
        span: Millis,
    },
    StoreCompact,
    StoreEndsLeases,
    StoreRollsBack {
        by: Millis,
    },
    StoreWiped,
    /// The record's bytes mean nothing for this time.
    Garble {
        kind: String,
        label: String,
        span: Millis,
    },
    FaultPool {
        pool: String,
        span: Option<Millis>,
    },
    PullDisk {
        pool: String,
        span: Option<Millis>,
    },
    /// Its disk ends nothing meanwhile, and then everything.
    HangDisk {
        pool: String,
        span: Millis,
    },
    SwapDisk {
        pool: String,
    },
    /// An engine that was taken over writes a volume's membership record, whatever it has of it.
    Lie {
        node: String,
        volume: String,
    },
    Weather {
        weather: Weather,
        span: Millis,
    },
    ClockAhead {
        controller: u8,
        by: Millis,
    },
    ClockBehind {
        controller: u8,
        by: Millis,
    },
}

/// A process that is killed without a time comes back after this one.
const QUICK: Millis = Millis(500);

impl Fault {
    /// `None` if the words do not begin like a fault.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Option<Self>, String> {
        let Some(first) = words.peek() else { return Err("nothing happens".into()) };
        let fault = match first {
            "kill" => {
                words.next();
                let party = words.party()?;
                let down = words.duration()?.unwrap_or(QUICK);
                Self::Kill { party, down }
            }
            "power" => {
                words.next();
                if words.is_next("off") {
                    let node = words.label("a node")?;
                    Self::PowerOff { node, down: words.duration()? }
                } else {
                    words.expect("on")?;
                    Self::PowerOn { node: words.label("a node")? }
                }
            }
            "pause" => {
                words.next();
                Self::Pause { party: words.party()?, span: words.for_span()? }
            }
            "cut" => {
                words.next();
                let one = words.party()?;
                if words.is_next("to") {
                    Self::CutOneWay { from: one, to: words.party()?, span: words.for_span()? }
                } else {
                    Self::Cut { one, other: words.party()?, span: words.for_span()? }
                }
            }
            "isolate" => {
                words.next();
                Self::Isolate { party: words.party()?, span: words.for_span()? }
            }
            "flap" => {
                words.next();
                let node = words.label("a node")?;
                words.expect("every")?;
                Self::Flap { node, every: words.span()?, span: words.for_span()? }
            }
            "store" => {
                words.next();
                Self::parse_store(words)?
            }
            "lie" => {
                words.next();
                let node = words.label("a node")?;
                words.expect("about")?;
                Self::Lie { node, volume: words.label("a volume")? }
            }
            _ => return Self::parse_thing(first, words),
        };
        Ok(Some(fault))
    }

    fn parse_store(words: &mut Words<'_>) -> Result<Self, String> {
        Ok(match words.word("what the store does")? {
            "silent" => Self::StoreSilent { span: words.for_span()? },
            "refusing" => Self::StoreRefusing { span: words.for_span()? },
            "slow" => Self::StoreSlow { by: words.span()?, span: words.for_span()? },
            "compacts" => Self::StoreCompact,
            "ends-leases" => Self::StoreEndsLeases,
            "rolls-back" => Self::StoreRollsBack { by: words.span()? },
            "wiped" => Self::StoreWiped,
            other => return Err(format!("the store does no {other:?}")),
        })
    }

    fn parse_thing(first: &str, words: &mut Words<'_>) -> Result<Option<Self>, String> {
        if !["garble", "fault", "pull", "fill", "hang", "swap", "weather", "clock"].contains(&first)
        {
            return Ok(None);
        }
        words.next();
        Ok(Some(match first {
            "garble" => Self::Garble {
                kind: words.word("a kind of record")?.to_owned(),
                label: words.label("a label")?,
                span: words.for_span()?,
            },
            "weather" => {
                words.expect("lost")?;
                let lost = words.number("thousandths")?;
                words.expect("repeated")?;
                let repeated = words.number("thousandths")?;
                words.expect("slower")?;
                let slower = words.span()?;
                let weather = Weather { lost, repeated, slower };
                Self::Weather { weather, span: words.for_span()? }
            }
            "clock" => {
                let controller = words.controller()?;
                match words.word("ahead or behind")? {
                    "ahead" => Self::ClockAhead { controller, by: words.span()? },
                    "behind" => Self::ClockBehind { controller, by: words.span()? },
                    _ => return Err("a clock is ahead or behind".into()),
                }
            }
            verb => {
                let pool = words.label("a pool")?;
                match verb {
                    "fault" => Self::FaultPool { pool, span: words.duration()? },
                    "pull" => Self::PullDisk { pool, span: words.duration()? },
                    "hang" => Self::HangDisk { pool, span: words.for_span()? },
                    _ => Self::SwapDisk { pool },
                }
            }
        }))
    }

    /// Every kind that scripts made from seeds have.
    pub const KINDS: &'static [&'static str] = &[
        "kill engine",
        "kill host",
        "kill controller",
        "power off for a time",
        "power off for ever",
        "pause engine",
        "pause host",
        "pause controller",
        "cut",
        "cut one way",
        "isolate",
        "flap",
        "store silent",
        "store refusing",
        "store slow",
        "store compacts",
        "store ends leases",
        "garble",
        "fault pool",
        "pull disk",
        "swap disk",
        "weather",
        "clock",
    ];

    /// The name under which it is counted.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Kill { party: Party::Node(_), .. } => "kill engine",
            Self::Kill { party: Party::Host(_), .. } => "kill host",
            Self::Kill { .. } => "kill controller",
            Self::PowerOff { down: Some(_), .. } => "power off for a time",
            Self::PowerOff { down: None, .. } => "power off for ever",
            Self::PowerOn { .. } => "power on",
            Self::Pause { party: Party::Node(_), .. } => "pause engine",
            Self::Pause { party: Party::Host(_), .. } => "pause host",
            Self::Pause { .. } => "pause controller",
            Self::Cut { .. } => "cut",
            Self::CutOneWay { .. } => "cut one way",
            Self::Isolate { .. } => "isolate",
            Self::Flap { .. } => "flap",
            Self::StoreSilent { .. } => "store silent",
            Self::StoreRefusing { .. } => "store refusing",
            Self::StoreSlow { .. } => "store slow",
            Self::StoreCompact => "store compacts",
            Self::StoreEndsLeases => "store ends leases",
            Self::StoreRollsBack { .. } => "store rolls back",
            Self::StoreWiped => "store wiped",
            Self::Garble { .. } => "garble",
            Self::FaultPool { .. } => "fault pool",
            Self::PullDisk { .. } => "pull disk",
            Self::HangDisk { .. } => "hang disk",
            Self::SwapDisk { .. } => "swap disk",
            Self::Lie { .. } => "lie",
            Self::Weather { .. } => "weather",
            Self::ClockAhead { .. } | Self::ClockBehind { .. } => "clock",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { party, down } => write!(f, "kill {party} for {}", Span(*down)),
            Self::PowerOff { node, down } => write!(f, "power off {node}{}", For(*down)),
            Self::PowerOn { node } => write!(f, "power on {node}"),
            Self::Lie { node, volume } => write!(f, "lie {node} about {volume}"),
            Self::Pause { party, span } => write!(f, "pause {party} for {}", Span(*span)),
            Self::Cut { one, other, span } => write!(f, "cut {one} {other} for {}", Span(*span)),
            Self::CutOneWay { from, to, span } => {
                write!(f, "cut {from} to {to} for {}", Span(*span))
            }
            Self::Isolate { party, span } => write!(f, "isolate {party} for {}", Span(*span)),
            Self::Flap { node, every, span } => {
                write!(f, "flap {node} every {} for {}", Span(*every), Span(*span))
            }
            Self::StoreSilent { span } => write!(f, "store silent for {}", Span(*span)),
            Self::StoreRefusing { span } => write!(f, "store refusing for {}", Span(*span)),
            Self::StoreSlow { by, span } => {
                write!(f, "store slow {} for {}", Span(*by), Span(*span))
            }
            Self::StoreCompact => f.write_str("store compacts"),
            Self::StoreEndsLeases => f.write_str("store ends-leases"),
            Self::StoreRollsBack { by } => write!(f, "store rolls-back {}", Span(*by)),
            Self::StoreWiped => f.write_str("store wiped"),
            Self::Garble { kind, label, span } => {
                write!(f, "garble {kind} {label} for {}", Span(*span))
            }
            Self::FaultPool { pool, span } => write!(f, "fault {pool}{}", For(*span)),
            Self::PullDisk { pool, span } => write!(f, "pull {pool}{}", For(*span)),
            Self::HangDisk { pool, span } => write!(f, "hang {pool} for {}", Span(*span)),
            Self::SwapDisk { pool } => write!(f, "swap {pool}"),
            Self::Weather { weather: Weather { lost, repeated, slower }, span } => write!(
                f,
                "weather lost {lost} repeated {repeated} slower {} for {}",
                Span(*slower),
                Span(*span)
            ),
            Self::ClockAhead { controller, by } => {
                write!(f, "clock c{controller} ahead {}", Span(*by))
            }
            Self::ClockBehind { controller, by } => {
                write!(f, "clock c{controller} behind {}", Span(*by))
            }
        }
    }
}
