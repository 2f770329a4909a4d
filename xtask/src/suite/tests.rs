//! Counting, judging and summing up.

use std::collections::BTreeSet;

use super::{
    Counts, Line, Mode, Outcome, Words, judge_one, judge_tests, result_of, skipped, summary,
};
use crate::tiers::TIERS;

fn counts(passed: usize, failed: usize, skipped: usize) -> Counts {
    Counts { passed, failed, skipped }
}

#[test]
fn a_result_line_of_cargo_test_is_counted_and_no_other() {
    let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; \
                finished in 0.00s";
    assert_eq!(result_of(line), counts(3, 2, 1));
    assert_eq!(result_of("test plan::passes ... ok"), counts(0, 0, 0));
}

#[test]
fn a_tier_that_does_not_build_counts_as_one_failure() {
    assert_eq!(judge_tests(Ok(false), counts(0, 0, 0)).1, counts(0, 1, 0));
    assert_eq!(judge_tests(Ok(false), counts(4, 2, 0)).1, counts(4, 2, 0));
    assert_eq!(judge_one(Ok(false)).1, counts(0, 1, 0));
}

#[test]
fn a_tier_that_ran_no_test_has_shown_nothing() {
    assert!(matches!(judge_tests(Ok(true), counts(0, 0, 0)).0, Outcome::Failed(_)));
    assert_eq!(judge_tests(Ok(true), counts(1, 0, 0)).0, Outcome::Passed);
}

#[test]
fn a_skip_is_told_on_a_desk_and_fails_in_ci() {
    assert_eq!(skipped("no etcd".to_owned(), Mode::Local).1, counts(0, 0, 1));
    let (outcome, count) = skipped("no etcd".to_owned(), Mode::Ci);
    assert!(matches!(outcome, Outcome::Failed(reason) if reason.contains("no etcd")));
    assert_eq!(count, counts(0, 1, 0));
}

#[test]
fn the_last_line_is_the_sum_alone() {
    let words = Vec::new();
    let lines = [
        Line { tier: "a", outcome: Outcome::Passed, counts: counts(7, 0, 0), seconds: 3, words },
        Line {
            tier: "b",
            outcome: Outcome::Skipped("no etcd".to_owned()),
            counts: counts(0, 0, 1),
            seconds: 0,
            words: Vec::new(),
        },
    ];
    let text = summary(&lines);
    assert_eq!(text.lines().last(), Some("7 passed, 0 failed, 1 skipped"));
    assert!(text.contains("no etcd"));
}

#[test]
fn what_failing_tests_said_is_kept_and_nothing_else() {
    let mut words = Words::default();
    for line in ["test a ... FAILED", "failures:", "---- a stdout ----", "no", "test result: F"] {
        words.add(line);
    }
    words.add("test b ... ok");
    assert_eq!(words.kept, ["failures:", "---- a stdout ----", "no"]);
}

#[test]
fn tiers_have_names_of_their_own() {
    let names: BTreeSet<_> = TIERS.iter().map(|tier| tier.name).collect();
    assert_eq!(names.len(), TIERS.len());
}
