//! Samples and the table of results.

use std::time::Duration;

pub(crate) fn samples(count: usize, mut sample: impl FnMut(usize) -> Duration) -> Vec<Duration> {
    (0..count).map(&mut sample).collect()
}

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<(String, usize, Duration, Duration, Duration)>,
}

impl Table {
    pub(crate) fn row(&mut self, name: &str, samples: &[Duration], goal: Duration) {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let high = sorted[sorted.len() * 99 / 100];
        self.rows.push((name.into(), sorted.len(), median, high, goal));
    }

    pub(crate) fn print(&self) {
        println!(
            "{:<62} {:>7} {:>11} {:>11} {:>10}  goal",
            "what", "samples", "median", "p99", "goal"
        );
        for (name, count, median, high, goal) in &self.rows {
            let verdict = if median <= goal { "met" } else { "missed" };
            println!(
                "{name:<62} {count:>7} {:>11} {:>11} {:>10}  {verdict}",
                words(*median),
                words(*high),
                words(*goal)
            );
        }
    }
}

fn words(span: Duration) -> String {
    if span < Duration::from_millis(1) {
        format!("{:.1} µs", span.as_secs_f64() * 1e6)
    } else {
        format!("{:.1} ms", span.as_secs_f64() * 1e3)
    }
}
