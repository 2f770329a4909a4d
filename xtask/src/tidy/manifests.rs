//! Every dependency is declared once, in the workspace; crates only name it.

use super::Finding;
use crate::repo::{File, Repo, crate_folder};

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let manifests = repo.files.iter().filter(|file| is_manifest(&file.path));
    manifests.flat_map(check_manifest).collect()
}

fn is_manifest(path: &str) -> bool {
    crate_folder(path).is_some_and(|folder| path.strip_prefix(folder) == Some("/Cargo.toml"))
}

fn check_manifest(file: &File) -> Vec<Finding> {
    let manifest: toml::Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::violation(&file.path, 1, error.to_string())],
    };
    let for_targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = for_targets
        .into_iter()
        .flat_map(toml::Table::values)
        .filter_map(toml::Value::as_table)
        .chain([&manifest]);
    let mut findings = Vec::new();
    for (table, section) in tables.flat_map(|table| SECTIONS.map(|section| (table, section))) {
        let declared = table.get(section).and_then(toml::Value::as_table);
        for (name, value) in declared.into_iter().flatten() {
            let inherits = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
            if !inherits {
                let message = format!(
                    "`{name}` is not taken from the workspace: declare it once in the root \
                     Cargo.toml and write `{name}.workspace = true` here"
                );
                findings.push(Finding::violation(&file.path, line_of(&file.text, name), message));
            }
        }
    }
    findings
}

fn line_of(text: &str, name: &str) -> usize {
    text.lines().position(|line| line.starts_with(name)).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests;
