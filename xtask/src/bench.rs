//! Benchmarks by name. What is measured lives with the crate that it measures.

mod table;

use std::{path::Path, process::ExitCode};

use anyhow::{Result, bail};

use crate::shell;
use table::Part;

struct Bench {
    name: &'static str,
    about: &'static str,
    run: Run,
}

enum Run {
    /// It tells its own story.
    Alone(&'static [&'static str]),
    /// Each part prints rows of JSON; together they are one table.
    Table(&'static [Part]),
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "plan",
        about: "time of one planning round by number of volumes",
        run: Run::Alone(&[
            "run",
            "--quiet",
            "--release",
            "--package",
            "sim",
            "--example",
            "bench_plan",
            "--",
        ]),
    },
    Bench {
        name: "cluster",
        about: "pauses when targets die, fall silent or are cut off; a thousand volumes",
        run: Run::Alone(&[
            "run",
            "--quiet",
            "--release",
            "--package",
            "e2e",
            "--bin",
            "holdfast-e2e",
            "--",
            "bench-cluster",
        ]),
    },
    Bench {
        name: "instructions",
        about: "instructions of a storage node per 4 KiB operation, under callgrind",
        run: Run::Alone(&[
            "run",
            "--quiet",
            "--release",
            "--package",
            "storage_node",
            "--example",
            "bench_instructions",
            "--",
        ]),
    },
    Bench {
        name: "engine",
        about: "the data plane beside the limits of disk, protocol and machine",
        run: Run::Table(&[
            Part { package: "uring", run: &["--example", "bench_limits", "--"] },
            Part { package: "engine", run: &["--example", "bench_target", "--"] },
            Part { package: "e2e", run: &["--bin", "holdfast-e2e", "--", "bench"] },
        ]),
    },
];

pub(crate) fn run(root: &Path, name: Option<&str>, args: &[String]) -> Result<ExitCode> {
    let Some(name) = name else {
        for bench in BENCHES {
            println!("{:<12} {}", bench.name, bench.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        bail!("no benchmark is called `{name}`; `cargo xtask bench` lists them");
    };
    match bench.run {
        Run::Alone(cargo) => shell::cargo_exit(root, cargo, args),
        Run::Table(parts) => table::run(root, bench.name, parts, args),
    }
}
