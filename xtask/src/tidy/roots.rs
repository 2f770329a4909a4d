//! What each crate's root must say of itself: no unsafe code, and no `std` if it is pure.

use super::{
    Finding,
    direction::{Layer, layer},
};
use crate::repo::{Repo, crate_folder};

/// The only crates that may contain unsafe code.
const MAY_BE_UNSAFE: &[&str] = &["uring"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, syntax) in repo.rust() {
        let Some(folder) = crate_folder(&file.path).filter(|_| is_root(&file.path)) else {
            continue;
        };
        let name = folder.rsplit('/').next().unwrap_or(folder);
        let mut require = |attribute: Attribute| {
            if !syntax.attrs.iter().any(|found| attribute.is(found)) {
                let message = format!("the root of `{name}` lacks `{}`", attribute.spelled());
                findings.push(Finding::violation(&file.path, 1, message));
            }
        };
        if !MAY_BE_UNSAFE.contains(&name) {
            require(Attribute::ForbidUnsafe);
        }
        if layer(name) == Some(Layer::Pure) && file.path.ends_with("/lib.rs") {
            require(Attribute::NoStd);
        }
    }
    findings
}

/// Whether this file is the root of a library or of a binary.
pub(crate) fn is_root(path: &str) -> bool {
    let Some(folder) = crate_folder(path) else { return false };
    match path.strip_prefix(folder) {
        Some("/src/lib.rs" | "/src/main.rs") => true,
        Some(inside) => inside
            .strip_prefix("/src/bin/")
            .is_some_and(|bin| !bin.contains('/') || bin.ends_with("/main.rs")),
        None => false,
    }
}

enum Attribute {
    ForbidUnsafe,
    NoStd,
}

impl Attribute {
    fn spelled(&self) -> &'static str {
        match self {
            Self::ForbidUnsafe => "#![forbid(unsafe_code)]",
            Self::NoStd => "#![no_std]",
        }
    }

    fn is(&self, found: &syn::Attribute) -> bool {
        match self {
            Self::NoStd => found.path().is_ident("no_std"),
            Self::ForbidUnsafe => {
                found.path().is_ident("forbid")
                    && found
                        .parse_args::<syn::Path>()
                        .is_ok_and(|lint| lint.is_ident("unsafe_code"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
