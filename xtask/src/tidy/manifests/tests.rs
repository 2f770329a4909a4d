//! Dependencies in crates' manifests.

use super::check;
use crate::{repo, tidy::told};

#[test]
fn dependencies_from_the_workspace_pass() {
    let clean = "[dependencies]\na.workspace = true\nb = { workspace = true, features = [] }\n";
    assert_eq!(check(&repo::of(&[("crates/plan/Cargo.toml", clean)])), []);
}

#[test]
fn a_version_in_a_crate_is_told_in_every_section() {
    let planted = "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nrand = { version = \"1\" }\n\
                   [target.'cfg(unix)'.dependencies]\nrustix = \"1\"\n";
    let found = told(&check(&repo::of(&[("crates/plan/Cargo.toml", planted)])));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().any(|line| line.starts_with("crates/plan/Cargo.toml:2: `serde`")));
}

#[test]
fn the_root_manifest_is_where_versions_live() {
    assert_eq!(check(&repo::of(&[("Cargo.toml", "[dependencies]\nserde = \"1\"\n")])), []);
}
