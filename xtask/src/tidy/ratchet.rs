//! The ratchet: what is over its budget today is listed with its size, and may only shrink.
//!
//! A new entry is written by hand, where a reviewer sees it. Lowering is mechanical.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{
    Finding, Weight,
    budgets::{Budget, Size, Sizes},
};

pub(crate) const PATH: &str = "xtask/tidy-ratchet.toml";

const HEADER: &str = "\
# What is over its budget today, with its size: it may not grow. `cargo xtask tidy --ratchet` lowers
# the numbers and drops what is no longer needed; it never raises or adds.
";

/// The sizes that are tolerated, by budget and by name.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Ratchet {
    kept: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Ratchet {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("reading {PATH}"))
    }

    pub(crate) fn render(&self) -> String {
        let mut text = HEADER.to_owned();
        // Writing to a string cannot fail.
        for (budget, entries) in &self.kept {
            let _ = write!(text, "\n[{budget}]\n");
            for (name, size) in entries {
                let _ = writeln!(text, "\"{name}\" = {size}");
            }
        }
        text
    }

    /// The same list with what became smaller, and without what fits its budget or is gone.
    #[must_use]
    pub(crate) fn lowered(&self, sizes: &Sizes) -> Self {
        let mut kept = BTreeMap::new();
        for budget in Budget::ALL {
            let lowered: BTreeMap<_, _> = self
                .entries(budget)
                .filter_map(|(name, kept)| Some((name, kept, size_of(sizes, budget, name)?)))
                .filter(|(_, _, now)| now.lines > budget.limit())
                .map(|(name, kept, now)| (name.clone(), now.lines.min(kept)))
                .collect();
            if !lowered.is_empty() {
                kept.insert(budget.name().to_owned(), lowered);
            }
        }
        Self { kept }
    }

    fn entries(&self, budget: Budget) -> impl Iterator<Item = (&String, usize)> {
        let entries = self.kept.get(budget.name());
        entries.into_iter().flatten().map(|(name, size)| (name, *size))
    }

    fn tolerated(&self, budget: Budget, name: &str) -> Option<usize> {
        self.kept.get(budget.name())?.get(name).copied()
    }
}

pub(crate) fn check(sizes: &Sizes, ratchet: &Ratchet) -> Vec<Finding> {
    let mut findings = Vec::new();
    for budget in Budget::ALL {
        for (name, size) in sizes.get(&budget).into_iter().flatten() {
            findings.extend(judge(budget, size, ratchet.tolerated(budget, name)));
        }
        for (name, kept) in ratchet.entries(budget) {
            let now = size_of(sizes, budget, name).map_or(0, |size| size.lines);
            findings.extend(slack(budget, name, kept, now));
        }
    }
    for section in ratchet.kept.keys() {
        if Budget::ALL.iter().all(|budget| budget.name() != section) {
            findings.push(Finding::violation(PATH, 1, format!("`{section}` is no budget")));
        }
    }
    findings
}

fn judge(budget: Budget, now: &Size, tolerated: Option<usize>) -> Vec<Finding> {
    let Size { path, at, lines } = now;
    let advice = budget.advice();
    let (weight, message) = match tolerated {
        Some(tolerated) if *lines > tolerated => {
            let held = format!("{lines} {advice}; the ratchet holds it at {tolerated}");
            (Weight::Violation, held)
        }
        None if *lines > budget.limit() => {
            (Weight::Violation, format!("{lines} {advice} (at most {})", budget.limit()))
        }
        None if *lines > budget.warns_above() => {
            (Weight::Warning, format!("{lines} {advice} (it fails above {})", budget.limit()))
        }
        _ => return Vec::new(),
    };
    let finding = |line: &usize| Finding {
        weight,
        path: path.clone(),
        line: *line,
        message: message.clone(),
    };
    at.iter().map(finding).collect()
}

/// An entry that promises more room than is needed.
fn slack(budget: Budget, name: &str, kept: usize, now: usize) -> Option<Finding> {
    let message = if now <= budget.limit() {
        format!("`{name}` fits its budget now: remove its entry (`cargo xtask tidy --ratchet`)")
    } else if now < kept {
        format!("`{name}` shrank from {kept} to {now}: run `cargo xtask tidy --ratchet`")
    } else {
        return None;
    };
    Some(Finding::violation(PATH, 1, message))
}

fn size_of<'a>(sizes: &'a Sizes, budget: Budget, name: &str) -> Option<&'a Size> {
    sizes.get(&budget)?.get(name)
}

#[cfg(test)]
mod tests;
