//! Which seeds nobody has run before: the ones that follow from the commit.
//!
//! Fixed seeds show that what worked still works; they are blind to what no one of them meets. Each
//! commit therefore runs other seeds as well. The first of them is the commit's id, so that anybody
//! with the same commit runs the same ones.

use std::{
    fmt,
    path::Path,
    process::{Command, Stdio},
};

/// Digits of the commit's id: 48 bits, so that adding a count to them cannot overflow.
const DIGITS: usize = 12;
/// Where they start in a tree that has no commit, as an exported one.
const WITHOUT_COMMIT: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreshSeeds {
    pub start: u64,
    commit: Option<String>,
}

impl FreshSeeds {
    pub(crate) fn of_head(root: &Path) -> Self {
        Self::of(head(root).as_deref())
    }

    fn of(commit: Option<&str>) -> Self {
        let digits = commit.and_then(|id| id.get(..DIGITS));
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match (number, digits) {
            (Some(start), Some(digits)) => Self { start, commit: Some(digits.to_owned()) },
            _ => Self { start: WITHOUT_COMMIT, commit: None },
        }
    }
}

impl fmt::Display for FreshSeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, commit } = self;
        match commit {
            Some(digits) => write!(f, "fresh seeds of commit {digits}: --start {start}"),
            None => write!(f, "no git commit is found: fresh seeds start at --start {start}"),
        }
    }
}

/// The id of the commit that is checked out; `None` where there is no git, checkout or commit.
fn head(root: &Path) -> Option<String> {
    let out = Command::new("git")
        // In a container the checkout often belongs to another user, which git refuses to read.
        .args(["-c", "safe.directory=*", "rev-parse", "--verify", "HEAD"])
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let id = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{FreshSeeds, WITHOUT_COMMIT};

    #[test]
    fn fresh_seeds_follow_from_the_commit_and_can_be_run_again() {
        let seeds = FreshSeeds::of(Some("00000000010f4315268be12f6f3b0f5a2c1d9e77"));
        assert_eq!(seeds.start, 0x10f);
        let words = "fresh seeds of commit 00000000010f: --start 271";
        assert_eq!(seeds.to_string(), words);
        let last = FreshSeeds::of(Some(&"f".repeat(40)));
        assert!(last.start.checked_add(u64::from(u32::MAX)).is_some());
    }

    #[test]
    fn a_tree_without_a_commit_says_so_and_starts_at_a_stated_seed() {
        for none in [None, Some(""), Some("HEAD"), Some("not a commit")] {
            let seeds = FreshSeeds::of(none);
            assert_eq!(seeds.start, WITHOUT_COMMIT, "{none:?}");
            assert!(seeds.to_string().contains("no git commit"), "{seeds}");
        }
    }
}
