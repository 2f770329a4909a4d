//! What a run shows.

use std::{collections::BTreeMap, time::Duration};

#[derive(Debug, Default)]
pub struct Report {
    /// By what was done, the longest pause of the host in each.
    gaps: BTreeMap<String, Vec<Duration>>,
    /// Of each time that everything healed: the part of the volume that was copied.
    parts: Vec<f64>,
    reads: u64,
    writes: u64,
}

impl Report {
    pub fn strike(&mut self, what: &str, seen: &e2e::work::Seen, part: f64) {
        let gap = seen.gaps.iter().max().copied().unwrap_or_default();
        self.gaps.entry(what.into()).or_default().push(gap);
        self.parts.push(part);
        self.reads += seen.reads;
        self.writes += seen.writes;
    }

    pub fn print(&self, replicas: usize) {
        println!("{replicas} replicas: {} reads and {} writes verified", self.reads, self.writes);
        println!("{:40} {:>5} {:>9} {:>9} {:>9}", "strike", "times", "gap p50", "p99", "max");
        for (what, gaps) in &self.gaps {
            let mut gaps = gaps.clone();
            gaps.sort();
            let of = |part: usize| gaps[((gaps.len() - 1) * part).div_ceil(100)].as_secs_f64();
            let (p50, p99, max) = (of(50), of(99), of(100));
            println!("{what:40} {:>5} {p50:>8.2}s {p99:>8.2}s {max:>8.2}s", gaps.len());
        }
        let most = self.parts.iter().copied().fold(0.0, f64::max);
        let mean = self.parts.iter().sum::<f64>() / f64::from(self.count().max(1));
        println!(
            "resync: {} times everything healed, copied {:.1} % of the volume on average, \
             {:.1} % at most",
            self.parts.len(),
            mean * 100.0,
            most * 100.0
        );
    }

    fn count(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }
}
