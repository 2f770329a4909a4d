//! The mission table as tidy sees it.

use super::check;
use crate::{mission, repo, tidy::told};

fn found(table: &str, test: &str) -> Vec<String> {
    told(&check(&repo::of(&[("crates/plan/src/tests.rs", test), (mission::PATH, table)])))
}

#[test]
fn a_fresh_table_passes() {
    let table = "| HA-1 | words | [`t`](../crates/plan/src/tests.rs) | shown |\n\
                 | HA-2 | words |  | open |\n| M-01 | words |  | open |\n";
    assert_eq!(found(table, "/// HA-1: x.\n#[test]\nfn t() {}\n"), [""; 0]);
}

#[test]
fn a_stale_table_is_told() {
    let found = found("| HA-1 | words |  | open |\n", "/// HA-1: x.\n#[test]\nfn t() {}\n");
    assert_eq!(found, ["docs/mission.md:1: stale: run `cargo xtask gen`"]);
}

#[test]
fn an_unknown_id_is_told_at_the_test() {
    let found = found("| HA-1 | words |  | open |\n", "/// HA-9: x.\n#[test]\nfn t() {}\n");
    assert!(found[0].starts_with("crates/plan/src/tests.rs:3: `t` cites `HA-9`"), "{found:?}");
}

#[test]
fn a_lost_row_is_told() {
    let found = found("| HA-1 | words |  | open |\n| HA-3 | words |  | open |\n", "");
    assert!(found[0].starts_with("docs/mission.md:2: `HA-3` stands where HA-2"), "{found:?}");
}
