//! Files and the `mod` lines that lead to them.

use super::check;
use crate::{repo, tidy::told};

fn found(files: &[(&str, &str)]) -> Vec<String> {
    told(&check(&repo::of(files)))
}

#[test]
fn a_tree_of_declared_modules_passes() {
    let clean = [
        ("crates/plan/src/lib.rs", "//! L.\nmod volume;\nmod old;\nmod inline { mod leaf; }\n"),
        ("crates/plan/src/volume.rs", "//! V.\nmod delete;\n#[path = \"odd.rs\"]\nmod even;\n"),
        ("crates/plan/src/volume/delete.rs", "//! D.\n"),
        ("crates/plan/src/odd.rs", "//! O.\n"),
        ("crates/plan/src/old/mod.rs", "//! M.\nmod part;\npub use part::Part;\n"),
        ("crates/plan/src/old/part.rs", "//! P.\npub struct Part;\n"),
        ("crates/plan/src/inline/leaf.rs", "//! L.\n"),
        ("crates/plan/src/bin/tool.rs", "//! T.\nfn main() {}\n"),
        ("crates/plan/tests/all.rs", "//! A.\n"),
    ];
    assert_eq!(found(&clean), [""; 0]);
}

#[test]
fn a_file_that_nothing_declares_is_dead() {
    let planted = [("crates/plan/src/lib.rs", "//! L.\n"), ("crates/plan/src/lost.rs", "//! X.\n")];
    let found = found(&planted);
    assert!(found[0].starts_with("crates/plan/src/lost.rs:1: no `mod` line"), "{found:?}");
}

#[test]
fn logic_in_a_mod_file_is_told_where_it_is() {
    let found = found(&[
        ("crates/plan/src/lib.rs", "//! L.\nmod a;\n"),
        ("crates/plan/src/a/mod.rs", "//! M.\n\nfn thinks() {}\n"),
    ]);
    assert!(found[0].starts_with("crates/plan/src/a/mod.rs:3: "), "{found:?}");
}

#[test]
fn a_module_without_words_is_told() {
    let found = found(&[("crates/plan/src/lib.rs", "fn f() {}\n")]);
    assert!(found[0].contains("open the module with `//!`"), "{found:?}");
}
