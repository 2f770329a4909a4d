//! The data plane from the command line: seeds, and what they did.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sim::{
    Kind,
    data_plane::{CASES, Failure, Fault, Report, Rules, Scene, run as run_scene},
};

use crate::{Arguments, SEEDS, SEEDS_FOR_COVERAGE, exit};

#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    events: u64,
    writes: u64,
    reads: u64,
    flushes: u64,
    faults: BTreeMap<&'static str, u64>,
    checks: BTreeMap<&'static str, u64>,
    notices: BTreeMap<&'static str, u64>,
    failures: Vec<(u64, Failure)>,
}

impl Sum {
    fn add(&mut self, seed: u64, report: Report) {
        self.seeds += 1;
        self.events += report.counts.events;
        self.writes += report.writes;
        self.reads += report.reads;
        self.flushes += report.flushes;
        let tables = [
            (&mut self.faults, report.counts.faults),
            (&mut self.checks, report.counts.checks),
            (&mut self.notices, report.counts.notices),
        ];
        for (sum, part) in tables {
            for (kind, count) in part {
                *sum.entry(kind).or_default() += count;
            }
        }
        if let Some(failure) = report.failure {
            tell(seed, &failure);
            self.failures.push((seed, failure));
        }
    }

    fn print(&self) {
        println!(
            "{} seeds, {} events, {} writes, {} reads and {} flushes of hosts",
            self.seeds, self.events, self.writes, self.reads, self.flushes
        );
        for (name, table) in
            [("faults", &self.faults), ("noticed", &self.notices), ("invariants", &self.checks)]
        {
            let cells: Vec<_> = table.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
            println!("{name}: {}", cells.join(", "));
        }
    }
}

fn tell(seed: u64, failure: &Failure) {
    let Failure { kind, promise, words } = failure;
    println!("seed {seed} failed: {kind:?}, invariant {promise}: {words}");
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(name) = &arguments.case {
        return cases(|case| case == name, true);
    }
    if arguments.cases {
        return cases(|_| true, false);
    }
    match arguments.seed {
        Some(seed) => one(seed, &Scene::of(seed)),
        None => many(arguments),
    }
}

/// Runs the cases whose names are chosen.
fn cases(is_chosen: impl Fn(&str) -> bool, is_traced: bool) -> ExitCode {
    let mut code = None;
    let mut count = 0;
    for case in CASES.iter().filter(|case| is_chosen(case.name)) {
        count += 1;
        let report = case.run(is_traced);
        for line in &report.trace {
            println!("{line}");
        }
        match report.failure {
            None => println!("kept    {}, {} events", case.name, report.counts.events),
            Some(Failure { kind, promise, words }) => {
                println!("failed  {}, invariant {promise}: {words}", case.name);
                code = code.or(Some(exit(kind)));
            }
        }
    }
    if count == 0 {
        println!("there is no such case");
        return ExitCode::from(2);
    }
    code.unwrap_or(ExitCode::SUCCESS)
}

fn one(seed: u64, scene: &Scene) -> ExitCode {
    let report = run_scene(seed, scene, Rules::default(), true);
    for line in &report.trace {
        println!("{line}");
    }
    let mut sum = Sum::default();
    sum.add(seed, report);
    sum.print();
    sum.failures.first().map_or(ExitCode::SUCCESS, |(_, failure)| exit(failure.kind))
}

fn many(arguments: &Arguments) -> ExitCode {
    let (start, count) = (arguments.start, arguments.seeds.unwrap_or(SEEDS));
    let next = AtomicU64::new(start);
    let stopped = AtomicBool::new(false);
    let sum: Mutex<Sum> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= start + count || stopped.load(Ordering::Relaxed) {
                return;
            }
            let report = run_scene(seed, &Scene::of(seed), Rules::default(), false);
            let failed = report.failure.is_some();
            sum.lock().unwrap_or_else(PoisonError::into_inner).add(seed, report);
            if failed && !arguments.keep_going {
                stopped.store(true, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.print();
    println!("{} failures", sum.failures.len());
    if let Some((seed, failure)) = sum.failures.first() {
        println!("again with: cargo xtask sim --data --seed {seed}");
        return exit(failure.kind);
    }
    let missing = Fault::KINDS.iter().filter(|kind| !sum.faults.contains_key(*kind));
    let missing: Vec<_> = missing.filter(|_| count >= SEEDS_FOR_COVERAGE).collect();
    for kind in &missing {
        println!("never happened: {kind}");
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { exit(Kind::NoProgress) }
}
