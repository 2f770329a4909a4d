//! The table follows from the tests that cite its ids.

use super::{PATH, citations, render, rows};
use crate::repo;

const TABLE: &str = "# T\n\n| id | behaviour | tests | state |\n|---|---|---|---|\n\
    | HA-3 | fenced first | old | shown |\n| K8-1 | pools |  | open |\n| M-07 | gone |  | open |\n";

fn cited(path: &str, text: &str) -> Vec<(Vec<String>, String, usize)> {
    let found = citations(&repo::of(&[(path, text)]));
    found.into_iter().map(|citation| (citation.ids, citation.test, citation.line)).collect()
}

#[test]
fn a_doc_comment_on_a_test_cites_all_ids_before_its_colon() {
    let text = "/// A claim.\n/// HA-2, HA-3: because.\n#[test]\nfn it_holds() {}\n";
    let ids = vec!["HA-2".to_owned(), "HA-3".to_owned()];
    assert_eq!(cited("crates/plan/src/tests.rs", text), [(ids, "it_holds".to_owned(), 4)]);
}

#[test]
fn async_tests_and_tests_inside_macros_cite_too() {
    let text = "proptest! {\n  /// ST-3: x.\n  #[tokio::test(start_paused = true)]\n  \
                async fn a(x: u8) {}\n}\n";
    assert_eq!(cited("crates/store/tests/all.rs", text).len(), 1);
}

#[test]
fn code_that_is_no_test_shows_nothing() {
    let text = "/// HA-3: the rule.\npub fn rule() {}\n/// HA-3: cfg.\n#[cfg(test)]\nfn f() {}\n";
    assert_eq!(cited("crates/plan/src/rule.rs", text), []);
    assert_eq!(cited("crates/plan/src/rule.rs", "/// UTF-8: x.\n#[test]\nfn f() {}\n"), []);
}

#[test]
fn a_function_of_a_conformance_suite_is_a_test() {
    let text =
        "/// ST-3: one transaction.\npub async fn writes_belong_together<S: Store>(s: S) {}\n";
    assert_eq!(cited("crates/conformance/src/store.rs", text).len(), 1);
}

#[test]
fn a_simulator_case_cites_in_its_header_only() {
    let text = "# HA-3, M-07: slow.\n# more words\nnode a\n# K8-1: not here\n";
    let ids = vec!["HA-3".to_owned(), "M-07".to_owned()];
    assert_eq!(cited("crates/sim/cases/slow.txt", text), [(ids, "slow".to_owned(), 1)]);
}

#[test]
fn rendering_fills_tests_and_state_and_keeps_the_words() {
    let source = "/// K8-1: x.\n#[test]\nfn made() {}\n";
    let repo = repo::of(&[("crates/plan/src/tests.rs", source), (PATH, TABLE)]);
    let text = render(&repo).unwrap();
    assert!(text.contains("| HA-3 | fenced first |  | open |\n"), "{text}");
    assert!(
        text.contains("| K8-1 | pools | [`made`](../crates/plan/src/tests.rs) | shown |\n"),
        "{text}"
    );
    assert!(text.starts_with("# T\n\n| id | behaviour | tests | state |\n|---|---|---|---|\n"));
}

#[test]
fn rendering_twice_changes_nothing() {
    let once = render(&repo::of(&[(PATH, TABLE)])).unwrap();
    assert_eq!(render(&repo::of(&[(PATH, &once)])).unwrap(), once);
}

#[test]
fn rows_are_ids_with_their_lines() {
    let rows: Vec<_> = rows(TABLE).into_iter().map(|row| (row.id, row.line)).collect();
    let wanted = [("HA-3", 5), ("K8-1", 6), ("M-07", 7)].map(|(id, line)| (id.to_owned(), line));
    assert_eq!(rows, wanted);
}
