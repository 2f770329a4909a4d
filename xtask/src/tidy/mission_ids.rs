//! Mission ids: the table is whole and fresh, and tests cite only ids that it has.

use std::collections::BTreeSet;

use super::Finding;
use crate::{
    generated,
    mission::{self, Row},
    repo::Repo,
};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let Some(table) = repo.file(mission::PATH) else {
        return vec![Finding::violation(mission::PATH, 1, "the mission table is missing")];
    };
    let rows = mission::rows(&table.text);
    let known: BTreeSet<_> = rows.iter().map(|row| row.id.as_str()).collect();
    let mut findings = gaps(&rows);
    for citation in mission::citations(repo) {
        for id in citation.ids.iter().filter(|id| !known.contains(id.as_str())) {
            let message =
                format!("`{}` cites `{id}`, which the mission does not have", citation.test);
            findings.push(Finding::violation(&citation.path, citation.line, message));
        }
    }
    match generated::stale(repo) {
        Ok(stale) => findings.extend(stale.iter().map(|generated| {
            Finding::violation(generated.path, 1, "stale: run `cargo xtask gen`")
        })),
        Err(error) => findings.push(Finding::violation(mission::PATH, 1, format!("{error:#}"))),
    }
    findings
}

/// Ids of one family count from one without a gap, so that no row gets lost unnoticed.
fn gaps(rows: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before: Option<(&str, u32)> = None;
    for Row { id, line } in rows {
        let Some((family, number)) = id.split_once('-') else { continue };
        let number = number.parse().unwrap_or(0);
        let wanted = match before {
            Some((same, number)) if same == family => number + 1,
            _ => 1,
        };
        if number != wanted {
            let message = format!("`{id}` stands where {family}-{wanted} should: a row is missing");
            findings.push(Finding::violation(mission::PATH, *line, message));
        }
        before = Some((family, number));
    }
    findings
}

#[cfg(test)]
mod tests;
