//! Traits earn their place: a port is small, and whatever is a trait has two implementors.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    spanned::Spanned,
    visit::{self, Visit},
};

use super::Finding;
use crate::repo::{Repo, line};

const PORTS: &str = "crates/ports/";

/// A port fits on one screen, and so does a fake that behaves like it.
const PORT_METHODS: usize = 6;

/// One real part and one fake; with fewer, the type itself would do.
const IMPLEMENTORS: usize = 2;

/// Traits that may have fewer, and why.
const ALLOWED: &[(&str, &str)] = &[];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut seen = Seen::default();
    for (file, syntax) in repo.rust() {
        file.path.clone_into(&mut seen.path);
        seen.visit_file(syntax);
    }
    let mut findings = Vec::new();
    for Declared { name, path, line, methods } in &seen.traits {
        let implementors = seen.implementors.get(name).map_or(0, BTreeSet::len);
        if implementors < IMPLEMENTORS && ALLOWED.iter().all(|(allowed, _)| allowed != name) {
            let message = format!(
                "trait `{name}` has {implementors} implementors: use the type, or add the fake"
            );
            findings.push(Finding::violation(path, *line, message));
        }
        if path.starts_with(PORTS) && *methods > PORT_METHODS {
            let message = format!("port `{name}` has {methods} methods, at most {PORT_METHODS}");
            findings.push(Finding::violation(path, *line, message));
        }
    }
    findings
}

struct Declared {
    name: String,
    path: String,
    line: usize,
    methods: usize,
}

#[derive(Default)]
struct Seen {
    path: String,
    traits: Vec<Declared>,
    /// By the trait's last name; the implementing types as they are written.
    implementors: BTreeMap<String, BTreeSet<String>>,
}

impl<'ast> Visit<'ast> for Seen {
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let methods = item.items.iter().filter(|item| matches!(item, syn::TraitItem::Fn(_)));
        self.traits.push(Declared {
            name: item.ident.to_string(),
            path: self.path.clone(),
            line: line(item.ident.span()),
            methods: methods.count(),
        });
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // An implementation for a reference only passes calls on.
        let passes_on = matches!(*item.self_ty, syn::Type::Reference(_));
        if let Some((path, _)) = item.trait_.as_ref().filter(|_| !passes_on)
            && let Some(last) = path.segments.last()
        {
            let implementor = item.self_ty.span().source_text().unwrap_or_default();
            let place = format!("{implementor} in {}", self.path);
            self.implementors.entry(last.ident.to_string()).or_default().insert(place);
        }
        visit::visit_item_impl(self, item);
    }
}

#[cfg(test)]
mod tests;
