//! Words that say nothing, in names of things and files.
//!
//! Only names that we give are looked at, not names that we use: an outside crate may call its
//! types as it likes.

use proc_macro2::Ident;
use syn::visit::{self, Visit};

use super::Finding;
use crate::repo::{File, Repo, line};

/// Lower case, compared with each part of a name.
const FORBIDDEN: &[&str] = &[
    "manager", "managers", "helper", "helpers", "util", "utils", "handler", "handlers", "info",
    "infos", "wrapper", "wrappers",
];

/// Names that may stay, and why.
const ALLOWED: &[(&str, &str)] = &[];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings: Vec<_> = repo.files.iter().filter_map(check_path).collect();
    for (file, syntax) in repo.rust() {
        let mut names = Names { path: &file.path, findings: &mut findings };
        names.visit_file(syntax);
    }
    findings
}

fn check_path(file: &File) -> Option<Finding> {
    let word = forbidden_word(&file.path)?;
    let message = format!("`{word}` in a path says nothing: name the file after what it holds");
    Some(Finding::violation(&file.path, 1, message))
}

/// The first part of a name that is a forbidden word.
fn forbidden_word(name: &str) -> Option<String> {
    if ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
        return None;
    }
    parts(name).into_iter().find(|part| FORBIDDEN.contains(&part.as_str()))
}

/// `NodeManager`, `node_manager` and `node-manager.rs` all start with `node`, `manager`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for letter in name.chars() {
        let starts = letter.is_uppercase() && after_lower;
        if starts || !letter.is_alphanumeric() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| letter.is_alphanumeric()) {
            part.extend(letter.to_lowercase());
        }
        after_lower = letter.is_lowercase();
    }
    parts
}

struct Names<'a> {
    path: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl Names<'_> {
    fn given(&mut self, ident: &Ident) {
        if let Some(word) = forbidden_word(&ident.to_string()) {
            let message = format!("`{word}` in `{ident}` says nothing: name what it is or does");
            self.findings.push(Finding::violation(self.path, line(ident.span()), message));
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Const(item) => self.given(&item.ident),
            syn::Item::Enum(item) => self.given(&item.ident),
            syn::Item::Macro(item) => item.ident.iter().for_each(|ident| self.given(ident)),
            syn::Item::Mod(item) => self.given(&item.ident),
            syn::Item::Static(item) => self.given(&item.ident),
            syn::Item::Struct(item) => self.given(&item.ident),
            syn::Item::Trait(item) => self.given(&item.ident),
            syn::Item::Type(item) => self.given(&item.ident),
            syn::Item::Union(item) => self.given(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.given(&item.sig.ident);
        visit::visit_item_fn(self, item);
    }

    /// Methods that a trait demands are named by the trait, which may not be ours.
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() {
            for part in &item.items {
                match part {
                    syn::ImplItem::Fn(method) => self.given(&method.sig.ident),
                    syn::ImplItem::Const(constant) => self.given(&constant.ident),
                    _ => {}
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.given(&item.sig.ident);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        field.ident.iter().for_each(|ident| self.given(ident));
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.given(&variant.ident);
        visit::visit_variant(self, variant);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.given(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
}

#[cfg(test)]
mod tests;
