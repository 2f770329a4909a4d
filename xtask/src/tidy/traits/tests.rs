//! Traits, their methods and their implementors.

use super::check;
use crate::{repo, tidy::told};

fn found(files: &[(&str, &str)]) -> Vec<String> {
    told(&check(&repo::of(files)))
}

#[test]
fn a_small_port_with_two_implementors_passes() {
    let clean = [
        ("crates/ports/src/clock.rs", "pub trait Clock { fn now(&self); fn sleep(&self); }"),
        ("crates/store/src/a.rs", "impl ports::Clock for Real { }"),
        ("crates/sim/src/a.rs", "impl<T> Clock for Fake<T> { }"),
    ];
    assert_eq!(found(&clean), [""; 0]);
}

#[test]
fn a_trait_with_one_implementor_is_told() {
    let found = found(&[
        ("crates/plan/src/a.rs", "//! X.\ntrait Rule {}\nimpl Rule for A {}"),
        ("crates/plan/src/b.rs", "impl<T: Rule> Rule for &T {}"),
    ]);
    assert!(found[0].starts_with("crates/plan/src/a.rs:2: trait `Rule` has 1"), "{found:?}");
}

#[test]
fn a_large_port_is_told() {
    let port = "trait P { fn a(); fn b(); fn c(); fn d(); fn e(); fn f(); fn g(); }\n\
                impl P for A {}\nimpl P for B {}";
    let found = found(&[("crates/ports/src/p.rs", port)]);
    assert!(found[0].contains("port `P` has 7 methods"), "{found:?}");
}
