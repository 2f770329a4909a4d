//! Style as a test: every check lists all that it finds, with a place and what to do about it.
//!
//! A check is a pure function of the repository's files and `cargo metadata`, so that each is
//! tested on a few lines in memory.

mod direction;
mod manifests;
mod roots;

mod names;
mod texts;

mod budgets;
mod ratchet;

mod mission_ids;
mod modules;
mod traits;

use std::{fmt, fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};

use crate::{
    cli::Verdict,
    repo::{Repo, Syntax},
};

/// What the checks look at.
pub(crate) struct Subject {
    repo: Repo,
    packages: Vec<direction::Package>,
    ratchet: ratchet::Ratchet,
}

/// Something that a check found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub weight: Weight,
    pub path: String,
    pub line: usize,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Shown, but nothing fails.
    Warning,
    Violation,
}

type Check = fn(&Subject) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("syntax", |subject| broken_syntax(&subject.repo)),
    ("direction", |subject| direction::check(&subject.packages)),
    ("manifests", |subject| manifests::check(&subject.repo)),
    ("roots", |subject| roots::check(&subject.repo)),
    ("names", |subject| names::check(&subject.repo)),
    ("texts", |subject| texts::check(&subject.repo)),
    ("budgets", |subject| ratchet::check(&budgets::measure(&subject.repo), &subject.ratchet)),
    ("modules", |subject| modules::check(&subject.repo)),
    ("traits", |subject| traits::check(&subject.repo)),
    ("mission", |subject| mission_ids::check(&subject.repo)),
];

pub(crate) fn run(root: &Path) -> Result<Verdict> {
    let subject = Subject::read(root)?;
    let mut violations = 0;
    for (name, check) in CHECKS {
        for finding in check(&subject) {
            println!("{finding} [{name}]");
            violations += usize::from(finding.weight == Weight::Violation);
        }
    }
    if violations == 0 {
        println!("tidy: {} files, {} checks", subject.repo.files.len(), CHECKS.len());
        return Ok(Verdict::Good);
    }
    println!("tidy: {violations} violations");
    Ok(Verdict::Bad)
}

/// Writes the ratchet again with whatever became smaller; nothing is added and nothing grows.
pub(crate) fn lower_ratchet(root: &Path) -> Result<ExitCode> {
    let subject = Subject::read(root)?;
    let lowered = subject.ratchet.lowered(&budgets::measure(&subject.repo));
    fs::write(root.join(ratchet::PATH), lowered.render())
        .with_context(|| format!("writing {}", ratchet::PATH))?;
    println!("wrote {}", ratchet::PATH);
    Ok(ExitCode::SUCCESS)
}

impl Subject {
    fn read(root: &Path) -> Result<Self> {
        let repo = Repo::read(root)?;
        let packages = direction::packages(root)?;
        let kept = repo.file(ratchet::PATH).map(|file| file.text.as_str()).unwrap_or_default();
        let ratchet = ratchet::Ratchet::parse(kept)?;
        Ok(Self { repo, packages, ratchet })
    }
}

impl Finding {
    fn violation(path: &str, line: usize, message: impl Into<String>) -> Self {
        let (path, message) = (path.to_owned(), message.into());
        Self { weight: Weight::Violation, path, line, message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weight, path, line, message } = self;
        let mark = match weight {
            Weight::Warning => "warning: ",
            Weight::Violation => "",
        };
        write!(f, "{path}:{line}: {mark}{message}")
    }
}

/// A file that does not parse is invisible to the other checks, so that is a finding of its own.
fn broken_syntax(repo: &Repo) -> Vec<Finding> {
    let broken = repo.files.iter().filter_map(|file| match &file.syntax {
        Syntax::Broken { line, message } => {
            Some(Finding::violation(&file.path, *line, format!("does not parse: {message}")))
        }
        _ => None,
    });
    broken.collect()
}

/// What a check found, as `path:line: message`, for the tests of the checks.
#[cfg(test)]
fn told(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}
