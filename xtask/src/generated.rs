//! Generated files: committed, written again by `gen`, and called stale by `gen --check` and tidy.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};

use crate::{cli::Verdict, mission, repo::Repo, shell};

/// A file that follows from others.
pub(crate) struct Generated {
    pub path: &'static str,
    /// The whole text that the file should have, from the repository as it is.
    pub render: fn(&Repo) -> Result<String>,
}

pub(crate) const GENERATED: &[Generated] =
    &[Generated { path: mission::PATH, render: mission::render }];

/// A file that a program of ours prints. Tidy does not build the program: a test beside it says
/// when the file is stale.
struct Printed {
    path: &'static str,
    arguments: &'static [&'static str],
}

const PRINTED: &[Printed] = &[Printed {
    path: "docs/reference/openapi.json",
    arguments: &["run", "--quiet", "-p", "rest", "--example", "openapi"],
}];

fn print(root: &Path) -> Result<()> {
    for Printed { path, arguments } in PRINTED {
        let wanted = shell::output(shell::cargo(root).args(*arguments))?;
        let full = root.join(path);
        if fs::read(&full).ok().as_ref() != Some(&wanted) {
            fs::write(&full, wanted).with_context(|| format!("writing {path}"))?;
            println!("wrote {path}");
        }
    }
    Ok(())
}

pub(crate) fn write(root: &Path) -> Result<ExitCode> {
    let repo = Repo::read(root)?;
    for generated in stale(&repo)? {
        let text = (generated.render)(&repo)?;
        fs::write(root.join(generated.path), text)
            .with_context(|| format!("writing {}", generated.path))?;
        println!("wrote {}", generated.path);
    }
    print(root)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn check(root: &Path) -> Result<Verdict> {
    let stale = stale(&Repo::read(root)?)?;
    for generated in &stale {
        println!("{} is stale: run `cargo xtask gen`", generated.path);
    }
    Ok(if stale.is_empty() { Verdict::Good } else { Verdict::Bad })
}

/// The generated files whose text is not what it should be.
pub(crate) fn stale(repo: &Repo) -> Result<Vec<&'static Generated>> {
    let mut stale = Vec::new();
    for generated in GENERATED {
        let wanted = (generated.render)(repo)?;
        if repo.file(generated.path).is_none_or(|file| file.text != wanted) {
            stale.push(generated);
        }
    }
    Ok(stale)
}
