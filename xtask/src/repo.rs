//! The files of the repository, read once and parsed once.
//!
//! Files are those that git tracks or would track, so build output is never looked at. An exported
//! tree without git is walked instead.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;
use proc_macro2::Span;

#[derive(Debug, Default)]
pub(crate) struct Repo {
    pub files: Vec<File>,
}

#[derive(Debug)]
pub(crate) struct File {
    /// From the root of the repository, with `/`.
    pub path: String,
    pub text: String,
    pub syntax: Syntax,
}

pub(crate) enum Syntax {
    NotRust,
    Rust(syn::File),
    Broken { line: usize, message: String },
}

impl std::fmt::Debug for Syntax {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotRust => "NotRust",
            Self::Rust(_) => "Rust",
            Self::Broken { .. } => "Broken",
        })
    }
}

/// The repository's root: the folder above this crate, wherever the command was started.
pub(crate) fn root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

impl Repo {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut paths = match tracked(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        paths.sort();
        paths.dedup();
        // A tracked file may be gone from the tree, and a binary one has no text: both have nothing
        // to check but their names, which were reviewed when they were added.
        let texts = paths.into_iter().filter_map(|path| {
            // A link is a second name of what is looked at under its first.
            if root.join(&path).is_symlink() {
                return None;
            }
            let text = fs::read_to_string(root.join(&path)).ok()?;
            Some((path, text))
        });
        Ok(Self::of(texts))
    }

    /// A repository of these paths and texts.
    pub(crate) fn of(texts: impl IntoIterator<Item = (String, String)>) -> Self {
        let files = texts.into_iter().map(|(path, text)| File::of(path, text)).collect();
        Self { files }
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Every file that parses as Rust.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &syn::File)> {
        self.files.iter().filter_map(|file| match &file.syntax {
            Syntax::Rust(syntax) => Some((file, syntax)),
            _ => None,
        })
    }
}

impl File {
    fn of(path: String, text: String) -> Self {
        let is_rust = Path::new(&path).extension().is_some_and(|extension| extension == "rs");
        let syntax = if is_rust { parse(&text) } else { Syntax::NotRust };
        Self { path, text, syntax }
    }

    /// Whether this is test code by its place: `tests.rs` beside the code, or a folder of tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }
}

/// The folder of the crate that a file belongs to.
pub(crate) fn crate_folder(path: &str) -> Option<&str> {
    if path.starts_with("xtask/") {
        return Some("xtask");
    }
    let name = path.strip_prefix("crates/")?.split_once('/')?.0;
    path.get(.."crates/".len() + name.len())
}

/// The line on which a piece of syntax starts.
pub(crate) fn line(span: Span) -> usize {
    span.start().line
}

/// What git tracks or would track; `None` where there is no git or no checkout.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let out = Command::new("git")
        // In a container the checkout often belongs to another user, which git refuses to read.
        .args(["-c", "safe.directory=*"])
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let listed = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| listed.split_terminator('\0').map(ToOwned::to_owned).collect())
}

/// Every file below the root of an exported tree, but for what tools mark as their cache.
fn walked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            let is_cache = path.ends_with(".git") || path.join("CACHEDIR.TAG").exists();
            if kind.is_dir() && !is_cache {
                folders.push(path);
            } else if kind.is_file() {
                paths.push(path.strip_prefix(root)?.display().to_string());
            }
        }
    }
    Ok(paths)
}

fn parse(text: &str) -> Syntax {
    match syn::parse_file(text) {
        Ok(syntax) => Syntax::Rust(syntax),
        Err(error) => Syntax::Broken { line: line(error.span()), message: error.to_string() },
    }
}

#[cfg(test)]
pub(crate) fn of(texts: &[(&str, &str)]) -> Repo {
    Repo::of(texts.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())))
}
