//! Files as modules: none is dead, none named `mod.rs` thinks, and each says what it is for.

use std::collections::BTreeSet;

use super::{Finding, roots::is_root};
use crate::repo::{File, Repo, Syntax, crate_folder, line};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let reached = reached(repo);
    let mut findings = Vec::new();
    for (file, syntax) in repo.rust() {
        if is_in_src(&file.path) && !reached.contains(&file.path) {
            let message = "no `mod` line leads here: declare the module or delete the file";
            findings.push(Finding::violation(&file.path, 1, message));
        }
        if !opens_with_words(file) {
            let message = "open the module with `//!`: what it is for and what it does not do";
            findings.push(Finding::violation(&file.path, 1, message));
        }
        if file.path.ends_with("/mod.rs") {
            findings.extend(logic(file, syntax));
        }
    }
    findings
}

fn is_in_src(path: &str) -> bool {
    crate_folder(path)
        .and_then(|folder| path.strip_prefix(folder))
        .is_some_and(|inside| inside.starts_with("/src/"))
}

/// The files that `mod` lines lead to from the roots of all crates.
fn reached(repo: &Repo) -> BTreeSet<String> {
    let roots = repo.files.iter().map(|file| &file.path).filter(|path| is_root(path));
    let mut to_visit: Vec<String> = roots.cloned().collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = to_visit.pop() {
        let Some(file) = repo.file(&path) else { continue };
        if let Syntax::Rust(syntax) = &file.syntax
            && reached.insert(path)
        {
            to_visit.extend(children(&file.path, &syntax.items));
        }
    }
    reached
}

/// Where the modules that these items declare may lie.
fn children(path: &str, items: &[syn::Item]) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let owns_folder = is_root(path) || name == "mod.rs";
    let below = if owns_folder {
        folder.to_owned()
    } else {
        format!("{folder}/{}", name.trim_end_matches(".rs"))
    };
    declared(folder, &below, items)
}

fn declared(folder: &str, below: &str, items: &[syn::Item]) -> Vec<String> {
    let mut places = Vec::new();
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let name = &module.ident;
        if let Some((_, items)) = &module.content {
            let inner = format!("{below}/{name}");
            places.extend(declared(&inner, &inner, items));
        } else if let Some(given) = module.attrs.iter().find_map(given_path) {
            places.push(format!("{folder}/{given}"));
        } else {
            places.push(format!("{below}/{name}.rs"));
            places.push(format!("{below}/{name}/mod.rs"));
        }
    }
    places
}

/// The text of `#[path = "…"]`.
fn given_path(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
        return None;
    };
    pair.path.is_ident("path").then(|| text.value())
}

fn opens_with_words(file: &File) -> bool {
    file.text.lines().next().is_some_and(|line| line.starts_with("//!"))
}

fn logic(file: &File, syntax: &syn::File) -> Vec<Finding> {
    let items = syntax.items.iter().filter(|item| {
        !matches!(item, syn::Item::Mod(_) | syn::Item::Use(_) | syn::Item::ExternCrate(_))
    });
    let message = "`mod.rs` only lists modules: move this into a file named after it";
    items
        .map(|item| {
            let at = line(syn::spanned::Spanned::span(item));
            Finding::violation(&file.path, at, message)
        })
        .collect()
}

#[cfg(test)]
mod tests;
