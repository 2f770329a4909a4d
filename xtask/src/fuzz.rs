//! Fuzzing: every target in `fuzz/src/bin`, each for a while. A new target is a new file there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    cli::Verdict,
    needs::{self, Effort, Installer, Need},
    shell,
};

const CARGO_FUZZ: Need = Need {
    program: "cargo-fuzz",
    installer: Installer::Cargo { package: "cargo-fuzz", version: "^0.13" },
};

/// One input may take this long, in seconds; more is a hang.
const INPUT_LIMIT: u32 = 20;

/// Far more than any target needs, in MiB: what goes beyond was asked for by the input.
const MEMORY_LIMIT: u32 = 2048;

/// Where new finds are gathered. What is worth keeping is moved to `fuzz/corpus` by hand.
const FINDS: &str = "target/fuzz-corpus";

/// Runs the targets, all or those that are named, each for so many seconds.
pub(crate) fn run(root: &Path, names: &[String], seconds: u32) -> Result<Verdict> {
    if let Err(reason) = needs::meet(&CARGO_FUZZ, Effort::Full) {
        bail!(reason);
    }
    let known = targets(root)?;
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target is called `{unknown}`; there are {}", known.join(", "));
    }
    let chosen = known.iter().filter(|name| names.is_empty() || names.contains(name));
    let mut failed = Vec::new();
    for name in chosen {
        println!("fuzz: {name}, {seconds} s");
        if !run_one(root, name, seconds)? {
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() {
        println!("fuzz: nothing found");
        return Ok(Verdict::Good);
    }
    println!("fuzz: failed: {}; the inputs are in fuzz/artifacts", failed.join(", "));
    Ok(Verdict::Bad)
}

fn run_one(root: &Path, name: &str, seconds: u32) -> Result<bool> {
    let finds = root.join(FINDS).join(name);
    let kept = root.join("fuzz/corpus").join(name);
    for folder in [&finds, &kept] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let mut command = shell::cargo(root);
    command
        .args(["fuzz", "run", "--fuzz-dir", "fuzz", name])
        .args([&finds, &kept])
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_LIMIT}"))
        .arg(format!("-rss_limit_mb={MEMORY_LIMIT}"))
        .arg("-print_final_stats=1")
        // The compiler is a stable one; instrumentation is not.
        .env("RUSTC_BOOTSTRAP", "1");
    shell::succeeds(&mut command)
}

/// The names of the targets, in order.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder: PathBuf = root.join("fuzz/src/bin");
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
