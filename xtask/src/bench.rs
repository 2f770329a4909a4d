//! Benchmarks by name. What is measured lives with the crate that it measures.

use std::{path::Path, process::ExitCode};

use anyhow::{Result, bail};

use crate::shell;

struct Bench {
    name: &'static str,
    about: &'static str,
    cargo: &'static [&'static str],
}

const BENCHES: &[Bench] = &[Bench {
    name: "plan",
    about: "time of one planning round by number of volumes",
    cargo: &["run", "--quiet", "--release", "--package", "sim", "--example", "bench_plan", "--"],
}];

pub(crate) fn run(root: &Path, name: Option<&str>, args: &[String]) -> Result<ExitCode> {
    let Some(name) = name else {
        for bench in BENCHES {
            println!("{:<10} {}", bench.name, bench.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        bail!("no benchmark is called `{name}`; `cargo xtask bench` lists them");
    };
    shell::cargo_exit(root, bench.cargo, args)
}
