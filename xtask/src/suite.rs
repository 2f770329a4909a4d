//! Running tiers and summing up. A tier that cannot run is told by name, and fails in CI.

use std::{
    env,
    fmt::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    cli::Verdict,
    fresh::FreshSeeds,
    needs::{self, Effort, Installer},
    shell, tidy,
    tiers::{SIM, TIERS, Tier, Work},
};

/// In CI, where nobody watches: all tiers together take less than 40 minutes from cold on two
/// cores, and no single one more than half of that. One that hangs must still leave a summary.
const TIER_LIMIT: Duration = Duration::from_mins(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A developer's machine: nothing slow is installed, a skip is only told.
    Local,
    /// The same, but everything that is missing is installed.
    Install,
    /// Everything is installed, and a skip is a failure.
    Ci,
}

impl Mode {
    pub(crate) fn from_env(install: bool) -> Self {
        match env::var("CI").as_deref() {
            Ok("true" | "1") => Self::Ci,
            _ if install => Self::Install,
            _ => Self::Local,
        }
    }

    fn effort(self) -> Effort {
        match self {
            Self::Local => Effort::Quick,
            Self::Install | Self::Ci => Effort::Full,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// How many tests, or how many tiers where a tier has no tests of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

struct Line {
    tier: &'static str,
    outcome: Outcome,
    counts: Counts,
    seconds: u64,
    /// What failing tests said.
    words: Vec<String>,
}

pub(crate) fn list() {
    for Tier { name, about, needs, .. } in TIERS {
        println!("{name:<12} {about}");
        for need in *needs {
            let source = match need.installer {
                Installer::Apt(package) => format!("apt: {package}"),
                Installer::Pip { package, version } => format!("pip: {package} {version}"),
                Installer::Cargo { package, version } => format!("cargo: {package} {version}"),
            };
            println!("{:<12} needs {} ({source})", "", need.program);
        }
    }
}

pub(crate) fn run(root: &Path, names: &[String], mode: Mode) -> Result<Verdict> {
    if let Some(unknown) = names.iter().find(|name| TIERS.iter().all(|tier| tier.name != **name)) {
        bail!("no tier is called `{unknown}`; `cargo xtask test --list` lists them");
    }
    let chosen = |tier: &&Tier| names.is_empty() || names.iter().any(|name| name == tier.name);
    if mode.effort() == Effort::Full {
        // First of all: tests of an early tier also use what only a later one cannot do without.
        for need in TIERS.iter().filter(chosen).flat_map(|tier| tier.needs) {
            // Whoever cannot do without it says so in its turn.
            let _ = needs::meet(need, Effort::Full);
        }
    }
    let mut lines = Vec::new();
    for tier in TIERS.iter().filter(chosen) {
        println!("\n=== {}: {}", tier.name, tier.about);
        let start = Instant::now();
        let mut words = Words::default();
        let (outcome, counts) = run_tier(root, tier, mode, &mut words);
        let (seconds, words) = (start.elapsed().as_secs(), words.kept);
        lines.push(Line { tier: tier.name, outcome, counts, seconds, words });
    }
    for Line { tier, words, .. } in lines.iter().filter(|line| !line.words.is_empty()) {
        println!("\n=== {tier}: what failed, once more\n{}", words.join("\n"));
    }
    println!("\n{}", summary(&lines));
    let failed = lines.iter().any(|line| matches!(line.outcome, Outcome::Failed(_)));
    Ok(if failed { Verdict::Bad } else { Verdict::Good })
}

fn run_tier(root: &Path, tier: &Tier, mode: Mode, words: &mut Words) -> (Outcome, Counts) {
    let unmet = tier.needs.iter().find_map(|need| needs::meet(need, mode.effort()).err());
    if let Some(reason) = unmet {
        println!("SKIPPED {}: {reason}", tier.name);
        return skipped(reason, mode);
    }
    let mut counts = Counts::default();
    let mut command = match mode {
        Mode::Ci => shell::cargo_within(root, TIER_LIMIT),
        Mode::Local | Mode::Install => shell::cargo(root),
    };
    command.env("PATH", shell::search_path()).envs(tier.env.iter().copied());
    let ran = match &tier.work {
        Work::Tidy => tidy::run(root).map(|verdict| verdict == Verdict::Good),
        Work::Cargo(args) => shell::succeeds(command.args(*args)),
        Work::Sim(args) => shell::succeeds(command.args(SIM).args(*args)),
        Work::FreshSim(args) => {
            let seeds = FreshSeeds::of_head(root);
            println!("{seeds}");
            let start = seeds.start.to_string();
            shell::succeeds(command.args(SIM).args(*args).args(["--start", &start]))
        }
        Work::CargoTest(args) => {
            // Without fail-fast, so that the count is of all tests and not of those up to the first
            // failure.
            command.args(["test", "--no-fail-fast"]).args(*args);
            shell::streamed(&mut command, |line| {
                counts.add(result_of(line));
                words.add(line);
            })
        }
    };
    let judged = ran.map_err(|error| format!("{error:#}"));
    match tier.work {
        Work::CargoTest(_) => judge_tests(judged, counts),
        Work::Tidy | Work::Cargo(_) | Work::Sim(_) | Work::FreshSim(_) => judge_one(judged),
    }
}

fn skipped(reason: String, mode: Mode) -> (Outcome, Counts) {
    if mode == Mode::Ci {
        let counts = Counts { failed: 1, ..Counts::default() };
        return (Outcome::Failed(format!("may not be skipped in CI: {reason}")), counts);
    }
    (Outcome::Skipped(reason), Counts { skipped: 1, ..Counts::default() })
}

fn judge_one(ran: Result<bool, String>) -> (Outcome, Counts) {
    let reason = match ran {
        Ok(true) => return (Outcome::Passed, Counts { passed: 1, ..Counts::default() }),
        Ok(false) => "see above".to_owned(),
        Err(reason) => reason,
    };
    (Outcome::Failed(reason), Counts { failed: 1, ..Counts::default() })
}

fn judge_tests(ran: Result<bool, String>, mut counts: Counts) -> (Outcome, Counts) {
    let reason = match ran {
        Ok(true) if counts.passed > 0 => return (Outcome::Passed, counts),
        Ok(true) => "it ran no test, so it showed nothing".to_owned(),
        Ok(false) if counts.failed > 0 => format!("{} tests, see above", counts.failed),
        Ok(false) => "it did not build or did not finish".to_owned(),
        Err(reason) => reason,
    };
    counts.failed = counts.failed.max(1);
    (Outcome::Failed(reason), counts)
}

/// What failing tests said, for the end of a long output, where a reader looks first.
#[derive(Debug, Default)]
struct Words {
    is_told: bool,
    kept: Vec<String>,
}

/// Beyond this the beginning says enough.
const WORDS_MAX: usize = 200;

impl Words {
    fn add(&mut self, line: &str) {
        // Twice in a report: before what each test said, and before the list of their names.
        self.is_told |= line == "failures:";
        if line.starts_with("test result: ") {
            self.is_told = false;
        } else if self.is_told && self.kept.len() < WORDS_MAX {
            self.kept.push(line.to_owned());
        }
    }
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }
}

/// The counts of a line `test result: ok. 3 passed; 0 failed; 1 ignored; …`, of others none.
fn result_of(line: &str) -> Counts {
    let mut counts = Counts::default();
    let Some((_, numbers)) =
        line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
    else {
        return counts;
    };
    for part in numbers.split("; ") {
        let Some((number, what)) = part.split_once(' ') else { continue };
        let number = number.parse().unwrap_or(0);
        match what {
            "passed" => counts.passed = number,
            "failed" => counts.failed = number,
            "ignored" => counts.skipped = number,
            _ => {}
        }
    }
    counts
}

/// A table of tiers, and the sum alone on the last line.
fn summary(lines: &[Line]) -> String {
    let mut text = format!("{:<12} {:>7}  {:<8} what\n", "tier", "seconds", "outcome");
    let mut sum = Counts::default();
    for Line { tier, outcome, counts, seconds, .. } in lines {
        let (word, what) = match outcome {
            Outcome::Passed => ("passed", format!("{} passed", counts.passed)),
            Outcome::Failed(reason) => ("FAILED", reason.clone()),
            Outcome::Skipped(reason) => ("skipped", reason.clone()),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{tier:<12} {seconds:>7}  {word:<8} {what}");
        sum.add(*counts);
    }
    let Counts { passed, failed, skipped } = sum;
    text + &format!("\n{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests;
