//! Who may depend on whom, from `cargo metadata` against one table.
//!
//! The table is the architecture: a crate that is not in it, or an arrow that it does not allow, is
//! a decision to be made here and reviewed, not an accident in a manifest.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use crate::shell;

/// One crate of ours and what it may see.
struct Allowed {
    name: &'static str,
    layer: Layer,
    /// Ours, in code that ships.
    uses: &'static [&'static str],
    /// Ours, in tests only, on top of `uses`.
    tests_use: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// No clock, randomness, thread, socket or file, and no outside crate that could bring one.
    Pure,
    Rim,
    Process,
    Proof,
}

const fn row(
    name: &'static str,
    layer: Layer,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Allowed {
    Allowed { name, layer, uses, tests_use }
}

/// The one table. The code column follows `model <- plan <- reconcile`; adapters see `model` and
/// `ports`; nothing sees a process. Tests may reach for fixtures and promises from anywhere.
#[rustfmt::skip]
const TABLE: &[Allowed] = &[
    row("model",       Layer::Pure,    &[],                         &["fixtures"]),
    row("plan",        Layer::Pure,    &["model"],                  &["fixtures", "invariants"]),
    row("invariants",  Layer::Pure,    &["model", "plan"],          &["fixtures"]),
    row("reconcile",   Layer::Pure,    &["model", "plan"],          &["fixtures", "invariants"]),
    row("block",       Layer::Pure,    &[],                         &[]),
    row("nvme",        Layer::Pure,    &["block"],                  &[]),
    row("pool",        Layer::Pure,    &["block", "model"],         &[]),
    row("mirror",      Layer::Pure,    &["block", "model", "pool"], &[]),
    row("storage_node", Layer::Pure,   &["block", "mirror", "model", "nvme", "pool"],
                                                                    &["conformance", "ports"]),
    row("uring",       Layer::Rim,     &["block"],                  &[]),
    row("pki",         Layer::Rim,     &[],                         &[]),
    row("ports",       Layer::Rim,     &["model"],                  &[]),
    row("store",       Layer::Rim,     &["model", "ports"],         &["conformance", "fixtures"]),
    row("rpc",         Layer::Rim,     &["model", "pki", "ports"],  &["store"]),
    row("rest",        Layer::Rim,     &["model", "pki", "plan"],   &["fixtures"]),
    row("cli",         Layer::Process, &["invariants", "model", "pki", "rest"], &[]),
    row("controller",  Layer::Process, &["model", "pki", "plan", "ports", "reconcile", "rest",
                                         "rpc", "store"],
                                        &["cli", "conformance", "e2e", "host", "invariants"]),
    row("conformance", Layer::Proof,   &["model", "ports", "store"], &["fixtures", "sim"]),
    row("fixtures",    Layer::Proof,   &["invariants", "model", "plan"], &[]),
    row("sim",         Layer::Proof,   &["block", "fixtures", "invariants", "mirror", "model",
                                         "nvme", "plan", "pool", "ports", "reconcile",
                                         "storage_node", "store"],  &[]),
    row("disk",        Layer::Process, &["block", "nvme", "uring"], &[]),
    row("engine",      Layer::Process, &["block", "mirror", "model", "nvme", "pki", "pool", "ports",
                                         "rpc", "storage_node", "store", "uring"],
                                                                    &["conformance", "disk"]),
    row("host",        Layer::Process, &["disk", "model", "pki", "ports", "rpc", "uring"],
                                        &["block", "controller", "e2e", "engine", "mirror",
                                          "nvme", "plan", "store"]),
    row("local",       Layer::Process, &["model", "rest"],          &[]),
    row("holdfast",    Layer::Process, &["block", "cli", "conformance", "controller", "disk",
                                         "engine", "fixtures", "host", "invariants", "local",
                                         "mirror", "model", "nvme",
                                         "pki", "plan", "pool", "ports", "reconcile", "rest", "rpc",
                                         "sim", "store", "uring"],  &[]),
    row("e2e",         Layer::Proof,   &["block", "controller", "disk", "engine", "host", "local",
                                         "mirror", "model", "nvme", "plan", "ports", "rest", "rpc",
                                         "store", "uring"],         &["conformance"]),
    row("xtask",       Layer::Proof,   &["fixtures", "invariants", "model", "plan", "ports",
                                         "reconcile", "sim", "store"],           &[]),
];

/// What a pure crate may take from outside: shapes and errors, nothing that acts.
const PURE_MAY_USE: &[&str] =
    &["crc32c", "postcard", "schemars", "serde", "serde_json", "thiserror", "uuid", "zerocopy"];

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub name: String,
    pub manifest_path: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub name: String,
    /// `None` for code that ships, else `dev` or `build`.
    pub kind: Option<String>,
    /// Where it lies, if it is ours.
    pub path: Option<String>,
}

/// The packages of the workspace, their manifests as paths from the root.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let json = shell::output(shell::cargo(root).args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version=1",
    ]))?;
    let mut metadata: Metadata =
        serde_json::from_slice(&json).context("reading the answer of cargo metadata")?;
    for package in &mut metadata.packages {
        if let Ok(inside) = Path::new(&package.manifest_path).strip_prefix(root) {
            package.manifest_path = inside.display().to_string();
        }
    }
    Ok(metadata.packages)
}

/// The layer of a crate of ours, if the table knows it.
pub(crate) fn layer(name: &str) -> Option<Layer> {
    TABLE.iter().find(|allowed| allowed.name == name).map(|allowed| allowed.layer)
}

pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings: Vec<_> = packages.iter().flat_map(check_package).collect();
    for Allowed { name, .. } in TABLE {
        if packages.iter().all(|package| package.name != *name) {
            let message = format!("`{name}` is in the table but not in the workspace: remove it");
            findings.push(Finding::violation("xtask/src/tidy/direction.rs", 1, message));
        }
    }
    findings
}

fn check_package(package: &Package) -> Vec<Finding> {
    let Some(allowed) = TABLE.iter().find(|allowed| allowed.name == package.name) else {
        let message = format!(
            "crate `{}` is not in the table: decide what it may see in xtask/src/tidy/direction.rs",
            package.name
        );
        return vec![Finding::violation(&package.manifest_path, 1, message)];
    };
    let wrong = package.dependencies.iter().filter_map(|dependency| refusal(allowed, dependency));
    wrong.map(|message| Finding::violation(&package.manifest_path, 1, message)).collect()
}

/// Why the crate may not have the dependency, if it may not.
fn refusal(allowed: &Allowed, dependency: &Dependency) -> Option<String> {
    let Allowed { name, layer, uses, tests_use } = allowed;
    let wanted = dependency.name.as_str();
    let in_tests = dependency.kind.as_deref() == Some("dev");
    if dependency.path.is_some() {
        let may = uses.contains(&wanted) || (in_tests && tests_use.contains(&wanted));
        let place = if in_tests { "in tests" } else { "in code" };
        return (!may).then(|| {
            format!("`{name}` may not use `{wanted}` {place}: move the code, or argue in an RFC")
        });
    }
    let may = in_tests || *layer != Layer::Pure || PURE_MAY_USE.contains(&wanted);
    let list = PURE_MAY_USE.join(", ");
    (!may).then(|| format!("`{name}` is pure and may not use `{wanted}`, only {list}"))
}

#[cfg(test)]
mod tests;
