//! What is measured, and how it is told.

use std::time::Duration;

use serde_json::json;

/// Each side runs this often, in turn, and the middle one counts: machines have moods.
pub(crate) const ROUNDS: usize = 5;

pub(crate) const ROUND: Duration = Duration::from_millis(600);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

impl Speed {
    pub fn of(mut nanos: Vec<u64>, elapsed: Duration) -> Self {
        nanos.sort_unstable();
        let at = |part: usize| {
            let nanos = nanos.get(nanos.len() * part / 100).copied().unwrap_or_default();
            Duration::from_nanos(nanos).as_secs_f64() * 1e6
        };
        let count = u32::try_from(nanos.len()).unwrap_or(u32::MAX);
        let per_second = f64::from(count) / elapsed.as_secs_f64();
        Self { per_second, p50_us: at(50), p99_us: at(99) }
    }
}

/// The middle one by speed.
pub(crate) fn middle(mut speeds: Vec<Speed>) -> Speed {
    speeds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    speeds[speeds.len() / 2]
}

/// One line of the table: us beside somebody else doing the same.
pub(crate) fn row(case: &str, ours: Speed, beside: &str, theirs: Speed) {
    let row = json!({
        "case": case,
        "per_second": ours.per_second.round(),
        "p50_us": round(ours.p50_us),
        "p99_us": round(ours.p99_us),
        "beside": beside,
        "beside_per_second": theirs.per_second.round(),
        "beside_p50_us": round(theirs.p50_us),
        "ratio": (ours.per_second / theirs.per_second * 100.0).round() / 100.0,
    });
    println!("{row}");
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
