//! What a run shows, for people and as JSON.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use e2e::application::Seen;
use serde_json::{Value, json};

use super::{chaos::Struck, watcher::Found};

/// A pause counts for a strike if it overlaps it or begins soon after its end: whoever returns
/// makes others wait, too.
const AFTERMATH: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Report {
    /// By kind of strike, the longest pause around each.
    gaps: BTreeMap<String, Vec<Duration>>,
    strikes: usize,
    at_once: usize,
    longest: Duration,
    reads: u64,
    writes: u64,
    devices_lost: u64,
    blocks: u64,
    copies: usize,
    found: Found,
    healed_in: Duration,
    doctor: String,
}

/// What is known besides strikes and pauses.
#[derive(Debug)]
pub struct Ending {
    pub blocks: u64,
    /// Copies that were read alone.
    pub copies: usize,
    pub found: Found,
    pub healed_in: Duration,
    pub doctor: String,
}

impl Report {
    pub fn new(struck: &[Struck], seen: &[Seen], ending: Ending) -> Self {
        let mut gaps: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for strike in struck {
            let end = strike.ended + AFTERMATH;
            gaps.entry(strike.kind.clone()).or_default().push(longest(seen, strike.began, end));
        }
        let pauses = seen.iter().flat_map(|seen| &seen.pauses);
        Self {
            gaps,
            strikes: struck.len(),
            at_once: struck.iter().map(|strike| strike.at_once).max().unwrap_or(0),
            longest: pauses.map(|(.., pause)| *pause).max().unwrap_or_default(),
            reads: seen.iter().map(|seen| seen.reads).sum(),
            writes: seen.iter().map(|seen| seen.writes).sum(),
            devices_lost: seen.iter().map(|seen| seen.devices_lost).sum(),
            blocks: ending.blocks,
            copies: ending.copies,
            found: ending.found,
            healed_in: ending.healed_in,
            doctor: ending.doctor,
        }
    }

    pub fn print(&self) {
        println!("{:36} {:>5} {:>9} {:>9} {:>9}", "strike", "times", "gap p50", "p99", "max");
        for (kind, gaps) in &self.gaps {
            let [p50, p99, max] = quantiles(gaps).map(|gap| gap.as_secs_f64());
            println!("{kind:36} {:>5} {p50:>8.2}s {p99:>8.2}s {max:>8.2}s", gaps.len());
        }
        println!(
            "{} strikes, up to {} at once; the longest pause {:.2} s; devices lost with their \
             host {} times",
            self.strikes,
            self.at_once,
            self.longest.as_secs_f64(),
            self.devices_lost
        );
        println!(
            "{} moves of a target; {} times a copy became whole again, {} MiB copied",
            self.found.moves,
            self.found.resyncs,
            self.found.copied_bytes >> 20
        );
        println!(
            "{} reads and {} writes verified; healed {:.1} s after the last strike; {} blocks read \
             back, 0 wrong",
            self.reads,
            self.writes,
            self.healed_in.as_secs_f64(),
            self.blocks
        );
        if self.copies > 0 {
            println!("{} copies read alone, 0 wrong", self.copies);
        }
        println!("doctor: {}\n", self.doctor);
    }

    pub fn json(&self) -> Value {
        let kinds: Vec<Value> = self.gaps.iter().map(|(kind, gaps)| row(kind, gaps)).collect();
        json!({
            "strikes": kinds,
            "strikes_at_once": self.at_once,
            "longest_pause_ms": millis(self.longest),
            "devices_lost": self.devices_lost,
            "moves": self.found.moves,
            "resyncs": self.found.resyncs,
            "copied_bytes": self.found.copied_bytes,
            "reads": self.reads,
            "writes": self.writes,
            "blocks_checked": self.blocks,
            "blocks_wrong": 0,
            "copies_read_alone": self.copies,
            "healed_in_ms": millis(self.healed_in),
            "doctor": self.doctor,
        })
    }
}

fn row(kind: &str, gaps: &[Duration]) -> Value {
    let [p50, p99, max] = quantiles(gaps).map(millis);
    json!({
        "kind": kind, "times": gaps.len(),
        "gap_p50_ms": p50, "gap_p99_ms": p99, "gap_max_ms": max,
    })
}

pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The middle one, the hundredth from above, the largest.
pub fn quantiles(gaps: &[Duration]) -> [Duration; 3] {
    let mut gaps = gaps.to_vec();
    gaps.sort_unstable();
    let last = gaps.len().saturating_sub(1);
    [50, 99, 100].map(|part| gaps.get((last * part).div_ceil(100)).copied().unwrap_or_default())
}

/// The longest pause that overlaps this time.
pub fn longest(seen: &[Seen], began: Instant, ended: Instant) -> Duration {
    let pauses = seen.iter().flat_map(|seen| &seen.pauses);
    let around = pauses.filter(|(from, to, _)| *from <= ended && *to >= began);
    around.map(|(.., pause)| *pause).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_was_seen() {
        assert_eq!(quantiles(&[]), [Duration::ZERO; 3]);
        let hundred: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let of = |gaps: &[Duration]| quantiles(gaps).map(millis);
        assert_eq!(of(&hundred), [101, 199, 200]);
        assert_eq!(of(&hundred[..1]), [1, 1, 1]);
    }

    #[test]
    fn a_pause_counts_for_the_strikes_that_it_overlaps() {
        let zero = Instant::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        let pause = Duration::from_secs(3);
        let seen = Seen { pauses: vec![(at(10), at(14), pause)], ..Seen::default() };
        assert_eq!(longest(std::slice::from_ref(&seen), at(13), at(15)), pause);
        assert_eq!(longest(&[seen], at(15), at(20)), Duration::ZERO);
    }
}
