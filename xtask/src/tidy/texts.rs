//! Texts that may stand nowhere in the repository.

use super::Finding;
use crate::repo::{File, Repo};

struct Forbidden {
    /// Assembled from halves, so that this table does not find itself.
    text: &'static str,
    place: Place,
    because: &'static str,
}

enum Place {
    Anywhere,
    /// Not as the tail of a longer path or word.
    Start,
    /// Not as a part of a word, and not with an issue behind it, as in `(#12)`.
    WithoutIssue,
}

const FORBIDDEN: &[Forbidden] = &[
    forbidden(concat!("/wo", "rk/"), Place::Start, MACHINE_PATH),
    forbidden(concat!("/ro", "ot/"), Place::Start, MACHINE_PATH),
    forbidden(concat!("/ho", "me/"), Place::Start, MACHINE_PATH),
    forbidden(concat!("artif", "actory"), Place::Anywhere, REGISTRY),
    forbidden(concat!("index.cra", "tes.io"), Place::Anywhere, REGISTRY),
    forbidden(concat!("static.cra", "tes.io"), Place::Anywhere, REGISTRY),
    forbidden(concat!("registry.np", "mjs.org"), Place::Anywhere, REGISTRY),
    forbidden(concat!("files.pytho", "nhosted.org"), Place::Anywhere, REGISTRY),
    forbidden(concat!("proxy.gol", "ang.org"), Place::Anywhere, REGISTRY),
    forbidden(concat!("TO", "DO"), Place::WithoutIssue, "name the issue: `(#12)` right behind it"),
    forbidden(concat!("FIX", "ME"), Place::Anywhere, "fix it, or open an issue and name it"),
    forbidden(concat!("#[ig", "nore"), Place::Anywhere, "a test runs, or it goes"),
    forbidden(concat!("db", "g!("), Place::Anywhere, "left over from looking for a fault"),
];

const MACHINE_PATH: &str = "a path of one machine means nothing on another";
const REGISTRY: &str = "where packages come from is the business of the machine, not of the code";

const fn forbidden(text: &'static str, place: Place, because: &'static str) -> Forbidden {
    Forbidden { text, place, because }
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    repo.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        for rule in FORBIDDEN {
            if line
                .match_indices(rule.text)
                .any(|(from, _)| rule.place.holds(line, from, rule.text))
            {
                let message = format!("`{}`: {}", rule.text, rule.because);
                findings.push(Finding::violation(&file.path, at + 1, message));
            }
        }
    }
    findings
}

impl Place {
    /// Whether a match of `text` at `from` counts.
    fn holds(&self, line: &str, from: usize, text: &str) -> bool {
        let before = line[..from].chars().next_back();
        let after = &line[from + text.len()..];
        let in_word = |letter: char| letter.is_alphanumeric() || "_-.*}".contains(letter);
        match self {
            Self::Anywhere => true,
            Self::Start => !before.is_some_and(in_word),
            Self::WithoutIssue => {
                !before.is_some_and(in_word) && !after.starts_with(in_word) && !has_issue(after)
            }
        }
    }
}

/// Whether the text starts with `(#12)`.
fn has_issue(text: &str) -> bool {
    let Some((number, _)) = text.strip_prefix("(#").and_then(|text| text.split_once(')')) else {
        return false;
    };
    !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests;
