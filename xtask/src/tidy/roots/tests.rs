//! Attributes of crate roots.

use super::check;
use crate::{repo, tidy::told};

#[test]
fn roots_with_their_attributes_pass() {
    let pure = "//! P.\n#![no_std]\n#![forbid(unsafe_code)]\n";
    let rim = "//! R.\n#![forbid(unsafe_code)]\n";
    let repo = repo::of(&[
        ("crates/plan/src/lib.rs", pure),
        ("crates/store/src/lib.rs", rim),
        ("crates/store/src/memory.rs", "//! No root.\n"),
        ("crates/uring/src/lib.rs", "//! May.\n"),
    ]);
    assert_eq!(check(&repo), []);
}

#[test]
fn a_missing_attribute_is_told() {
    let found = told(&check(&repo::of(&[
        ("crates/plan/src/lib.rs", "//! P.\n#![forbid(unsafe_code)]\n"),
        ("crates/sim/src/bin/run.rs", "//! R.\nfn main() {}\n"),
    ])));
    assert!(found[0].contains("`plan` lacks `#![no_std]`"), "{found:?}");
    assert!(found[1].contains("`sim` lacks `#![forbid(unsafe_code)]`"), "{found:?}");
    assert_eq!(found.len(), 2);
}
