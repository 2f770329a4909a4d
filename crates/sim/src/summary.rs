//! What many runs did, added up.

use std::{collections::BTreeMap, fmt::Write};

use plan::Action;
use sim::Report;

#[derive(Debug, Default)]
pub(crate) struct Summary {
    seeds: u64,
    events: u64,
    least_events: Option<u64>,
    writes: u64,
    reads: u64,
    simulated_seconds: u64,
    faults: BTreeMap<&'static str, u64>,
    asks: BTreeMap<&'static str, u64>,
    accepted: BTreeMap<&'static str, u64>,
    steps: BTreeMap<&'static str, u64>,
}

impl Summary {
    pub(crate) fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.events += report.events;
        let least = self.least_events.unwrap_or(u64::MAX);
        self.least_events = Some(least.min(report.events));
        self.writes += report.writes;
        self.reads += report.reads;
        self.simulated_seconds += report.simulated.0 / 1_000;
        let tables = [
            (&mut self.faults, &report.faults),
            (&mut self.asks, &report.asks),
            (&mut self.accepted, &report.accepted),
            (&mut self.steps, &report.steps),
        ];
        for (sum, part) in tables {
            for (kind, count) in part {
                *sum.entry(*kind).or_default() += count;
            }
        }
    }

    /// Kinds of steps and faults that never happened.
    pub(crate) fn missing(&self) -> Vec<String> {
        let steps = Action::KINDS.iter().filter(|kind| !self.steps.contains_key(*kind));
        let faults = sim::Fault::KINDS.iter().filter(|kind| !self.faults.contains_key(*kind));
        let steps = steps.map(|kind| format!("step {kind}"));
        steps.chain(faults.map(|kind| format!("fault {kind}"))).collect()
    }

    pub(crate) fn print(&self) {
        println!(
            "{} seeds, {} events (at least {} each), {} h simulated, \
             {} writes and {} reads checked",
            self.seeds,
            self.events,
            self.least_events.unwrap_or(0),
            self.simulated_seconds / 3_600,
            self.writes,
            self.reads
        );
        print_table("faults", &self.faults);
        print_table("requests", &self.asks);
        print_table("accepted", &self.accepted);
        print_table("steps", &self.steps);
    }
}

fn print_table(name: &str, table: &BTreeMap<&'static str, u64>) {
    println!("{name}:");
    let mut line = String::new();
    for (kind, count) in table {
        let cell = format!("{kind} {count}");
        let _ = write!(line, "  {cell:<28}");
        if line.chars().count() > 88 {
            println!("{}", line.trim_end());
            line.clear();
        }
    }
    if !line.is_empty() {
        println!("{}", line.trim_end());
    }
}
