//! The mission table: which behaviour is shown by which test.
//!
//! `docs/mission.md` itself is the list of ids and their words, written by hand. The columns
//! `tests` and `state` follow from the tests that cite an id: a doc comment `/// HA-2, HA-3: why`
//! on a test, or a header `# HA-3, M-07: why` of a simulator case.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, Result};

use crate::repo::{File, Repo, Syntax};

pub(crate) const PATH: &str = "docs/mission.md";

/// Its functions become tests by the macro that runs the suite on each adapter, so they carry no
/// `#[test]` of their own.
const SUITES: &str = "crates/conformance/src/";

const CASES: &str = "crates/sim/cases/";

/// A test that says which ids it shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    pub ids: Vec<String>,
    pub test: String,
    pub path: String,
    pub line: usize,
}

/// A row of the table: its id and the line it is on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub id: String,
    pub line: usize,
}

/// The mission table with its last two columns as the tests have it today.
pub(crate) fn render(repo: &Repo) -> Result<String> {
    let table = &repo.file(PATH).with_context(|| format!("{PATH} is missing"))?.text;
    let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Citation { ids, test, path, .. } in citations(repo) {
        for id in ids {
            tests.entry(id).or_default().push(format!("[`{test}`](../{path})"));
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        if let Some([id, words, ..]) = cells(line) {
            let tests = tests.get(id).map(|tests| tests.join(", ")).unwrap_or_default();
            let state = if tests.is_empty() { "open" } else { "shown" };
            writeln!(text, "| {id} | {words} | {tests} | {state} |")?;
        } else {
            writeln!(text, "{line}")?;
        }
    }
    Ok(text)
}

pub(crate) fn rows(table: &str) -> Vec<Row> {
    let numbered = table.lines().enumerate();
    numbered
        .filter_map(|(at, line)| {
            cells(line).map(|[id, ..]| Row { id: id.to_owned(), line: at + 1 })
        })
        .collect()
}

/// Every citation, in the order of paths and lines.
pub(crate) fn citations(repo: &Repo) -> Vec<Citation> {
    let mut found = Vec::new();
    for file in &repo.files {
        match file.path.strip_prefix(CASES).and_then(|name| name.strip_suffix(".txt")) {
            Some(name) => found.extend(in_case(file, name)),
            None if matches!(file.syntax, Syntax::NotRust) => {}
            None => found.extend(in_tests(file)),
        }
    }
    found
}

/// By lines rather than by syntax, because tests inside macros (`proptest!`) cite ids as well.
fn in_tests(file: &File) -> Vec<Citation> {
    let mut found = Vec::new();
    let (mut ids, mut is_test) = (Vec::new(), false);
    for (at, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            ids.extend(cited(doc));
        } else if line.starts_with("#[") {
            is_test |= is_test_attribute(line);
        } else if let Some(name) = function_name(line)
            && !ids.is_empty()
            && (is_test || file.path.starts_with(SUITES))
        {
            let (test, path) = (name.to_owned(), file.path.clone());
            found.push(Citation { ids: std::mem::take(&mut ids), test, path, line: at + 1 });
            is_test = false;
        } else {
            ids.clear();
            is_test = false;
        }
    }
    found
}

fn in_case(file: &File, name: &str) -> Option<Citation> {
    let header = file.text.lines().map_while(|line| line.strip_prefix('#'));
    let ids: Vec<_> = header.flat_map(cited).collect();
    let (test, path) = (name.to_owned(), file.path.clone());
    (!ids.is_empty()).then_some(Citation { ids, test, path, line: 1 })
}

/// The ids before the colon of `HA-2, HA-3: why`; none if the text before it is anything else.
fn cited(text: &str) -> Vec<String> {
    let Some((ids, _)) = text.split_once(':') else { return Vec::new() };
    let ids: Vec<_> = ids.split(',').map(str::trim).collect();
    if ids.iter().all(|id| is_id(id)) {
        ids.into_iter().map(ToOwned::to_owned).collect()
    } else {
        Vec::new()
    }
}

/// One or two capitals (or a digit second, as in `K8`), a dash and a number.
fn is_id(text: &str) -> bool {
    let Some((family, number)) = text.split_once('-') else { return false };
    let mut letters = family.chars();
    letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && letters.next().is_none_or(|next| next.is_ascii_uppercase() || next.is_ascii_digit())
        && letters.next().is_none()
        && !number.is_empty()
        && number.chars().all(|digit| digit.is_ascii_digit())
}

/// The four cells of a row of the table, if the line is one.
fn cells(line: &str) -> Option<[&str; 4]> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<_> = inner.split('|').map(str::trim).collect();
    let cells: [&str; 4] = cells.try_into().ok()?;
    is_id(cells[0]).then_some(cells)
}

/// `#[test]`, `#[tokio::test(…)]` and the like, but not `#[cfg(test)]`.
fn is_test_attribute(line: &str) -> bool {
    let path = line.trim_start_matches("#[").split(['(', ']', ' ']).next().unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    // `pub(crate) const async fn name` is as far away as the word can be.
    words.by_ref().take(4).find(|word| *word == "fn")?;
    words.next()?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests;
