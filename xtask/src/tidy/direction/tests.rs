//! Arrows against the table.

use super::{Dependency, Package, TABLE, check, check_package};
use crate::tidy::told;

/// A package that depends on `ours` and `outside`, each as `name` or `dev:name`.
fn package(name: &str, ours: &[&str], outside: &[&str]) -> Package {
    let dependency = |spelled: &&str, path: Option<String>| {
        let (kind, name) = match spelled.split_once(':') {
            Some((kind, name)) => (Some(kind.to_owned()), name),
            None => (None, *spelled),
        };
        Dependency { name: name.to_owned(), kind, path }
    };
    let ours = ours.iter().map(|name| dependency(name, Some("somewhere".to_owned())));
    let outside = outside.iter().map(|name| dependency(name, None));
    Package {
        name: name.to_owned(),
        manifest_path: format!("crates/{name}/Cargo.toml"),
        dependencies: ours.chain(outside).collect(),
    }
}

#[test]
fn arrows_of_the_table_pass() {
    let clean = package("plan", &["model", "dev:fixtures"], &["serde", "dev:proptest"]);
    assert_eq!(told(&check_package(&clean)), [""; 0]);
}

#[test]
fn an_arrow_against_the_table_is_refused() {
    let found = told(&check_package(&package("model", &["plan"], &[])));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`model` may not use `plan` in code"), "{found:?}");
}

#[test]
fn what_tests_may_use_code_may_not() {
    assert_eq!(check_package(&package("plan", &["fixtures"], &[])).len(), 1);
    assert_eq!(check_package(&package("plan", &["dev:sim"], &[])).len(), 1);
    assert_eq!(check_package(&package("plan", &["build:fixtures"], &[])).len(), 1);
}

#[test]
fn a_pure_crate_takes_nothing_that_acts() {
    let found = told(&check_package(&package("reconcile", &[], &["tokio", "rand"])));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(check_package(&package("store", &[], &["tokio"])), []);
}

#[test]
fn an_unknown_crate_and_a_row_without_a_crate_are_told() {
    let mut all: Vec<_> = TABLE.iter().map(|row| package(row.name, &[], &[])).collect();
    assert_eq!(check(&all), []);
    all.push(package("gadget", &[], &[]));
    all.remove(0);
    let found = told(&check(&all));
    assert!(found[0].contains("`gadget` is not in the table"), "{found:?}");
    assert!(found[1].contains("`model` is in the table but not"), "{found:?}");
}
