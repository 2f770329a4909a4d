//! Words in names.

use super::check;
use crate::{repo, tidy::told};

fn found(text: &str) -> Vec<String> {
    told(&check(&repo::of(&[("crates/plan/src/lib.rs", text)])))
}

#[test]
fn plain_names_and_outside_names_pass() {
    let clean = "use tracing::info;\nstruct Informant;\nfn handle() { info!(\"x\"); }\n\
                 impl Hook for Informant { fn error_handler(&self) {} }\n\
                 fn f(x: &std::panic::PanicHookInfo) {}\n";
    assert_eq!(found(clean), [""; 0]);
}

#[test]
fn each_place_where_a_name_is_given_is_looked_at() {
    for planted in [
        "struct NodeManager;",
        "enum E { InfoOf }",
        "trait PoolHelper {}",
        "mod utils {}",
        "fn event_handler() {}",
        "impl X { fn wrapper(&self) {} }",
        "struct S { node_info: u8 }",
        "fn f() { let info = 1; }",
        "fn f(helper: u8) {}",
        "const UTIL_SIZE: u8 = 1;",
        "macro_rules! with_helper { () => {} }",
    ] {
        assert_eq!(found(planted).len(), 1, "{planted}");
    }
}

#[test]
fn a_file_name_is_a_name() {
    let found = told(&check(&repo::of(&[("crates/plan/src/pool-utils.rs", "//! X.\n")])));
    assert!(found[0].starts_with("crates/plan/src/pool-utils.rs:1: `utils`"), "{found:?}");
}
