//! How large things are: files, functions, lines. What is too large is judged by the ratchet.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::repo::{Repo, line};

/// A limit that the project keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Budget {
    File,
    Function,
    /// Counts the lines of a file that are longer than `LINE_LIMIT`.
    Width,
}

/// What was measured: by budget, then by what it is the size of.
pub(crate) type Sizes = BTreeMap<Budget, BTreeMap<String, Size>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub path: String,
    /// Where to look: the first line, or each line that is too long.
    pub at: Vec<usize>,
    pub lines: usize,
}

/// The width that rustfmt is set to: what it cannot break (texts, comments) is broken by hand.
const LINE_LIMIT: usize = 100;

impl Budget {
    pub(crate) const ALL: [Self; 3] = [Self::File, Self::Function, Self::Width];

    /// The section of the ratchet file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "file-lines",
            Self::Function => "function-lines",
            Self::Width => "long-lines",
        }
    }

    /// Above this it fails.
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::File => 1000,
            // What fits on one screen beside its tests.
            Self::Function => 70,
            Self::Width => 0,
        }
    }

    /// Above this it is told.
    pub(crate) fn warns_above(self) -> usize {
        match self {
            Self::File => 600,
            Self::Function | Self::Width => self.limit(),
        }
    }

    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::File => "lines in the file: one idea per file, move the second one out",
            Self::Function => "lines in the function: name its parts",
            Self::Width => "lines of the file have more than 100 characters: break this one",
        }
    }
}

pub(crate) fn measure(repo: &Repo) -> Sizes {
    let mut sizes = Sizes::new();
    for (file, syntax) in repo.rust() {
        let mut add = |budget: Budget, name: String, at: Vec<usize>, lines: usize| {
            let size = Size { path: file.path.clone(), at, lines };
            let known = sizes.entry(budget).or_default().entry(name).or_insert(size.clone());
            // Two functions of one name in one file share an entry: the larger one counts.
            if size.lines > known.lines {
                *known = size;
            }
        };
        if !file.is_test() {
            add(Budget::File, file.path.clone(), vec![1], file.text.lines().count());
        }
        let long = file.text.lines().enumerate().filter(|(_, line)| is_too_long(line));
        let long: Vec<_> = long.map(|(at, _)| at + 1).collect();
        let count = long.len();
        if count > 0 {
            add(Budget::Width, file.path.clone(), long, count);
        }
        let mut functions = Functions::default();
        functions.visit_file(syntax);
        for (name, line, size) in functions.found {
            add(Budget::Function, format!("{}::{name}", file.path), vec![line], size);
        }
    }
    sizes
}

/// An address cannot be broken.
fn is_too_long(line: &str) -> bool {
    line.chars().count() > LINE_LIMIT && !line.contains("https://")
}

#[derive(Default)]
struct Functions {
    /// Name, first line and number of lines, from the signature to the closing brace.
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = line(signature.fn_token.span);
        let last = block.brace_token.span.close().end().line;
        self.found.push((signature.ident.to_string(), first, last + 1 - first));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}
