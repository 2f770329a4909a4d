//! One table of several programs' rows, printed and kept as JSON.
//!
//! A part prints a line of JSON per row: `case`, `per_second`, and where they make sense `p50_us`,
//! `p99_us`, `beside` (who did the same), `beside_per_second` and `ratio`; or `value`, in the unit
//! that the case names. Other lines pass.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    needs::{self, Effort, Installer, Need},
    shell,
};

/// A program. It is given a folder for its files, then the user's arguments.
pub(crate) struct Part {
    pub package: &'static str,
    /// What cargo runs of it, up to the folder.
    pub run: &'static [&'static str],
}

/// Measured beside us.
const FIO: Need = Need { program: "fio", installer: Installer::Apt("fio") };

pub(crate) fn run(root: &Path, name: &str, parts: &[Part], args: &[String]) -> Result<ExitCode> {
    if let Err(reason) = needs::meet(&FIO, Effort::Quick) {
        bail!("{reason}");
    }
    let folder = root.join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut rows = Vec::new();
    for part in parts {
        let mut command = shell::cargo(root);
        command.args(["run", "--quiet", "--release", "--package", part.package]);
        command.args(part.run).arg(&folder).args(args);
        let succeeded = shell::streamed(&mut command, |line| rows.extend(row(line)))?;
        if !succeeded {
            bail!("the part of {} failed", part.package);
        }
    }
    let file = folder.join(format!("{name}.json"));
    let json = serde_json::to_vec_pretty(&rows).context("rows are plain values")?;
    fs::write(&file, json).with_context(|| format!("writing {}", file.display()))?;
    println!("\n{}", table(&rows));
    println!("kept in {}", file.display());
    Ok(ExitCode::SUCCESS)
}

fn row(line: &str) -> Option<Value> {
    serde_json::from_str::<Value>(line).ok().filter(|row| row["case"].is_string())
}

fn table(rows: &[Value]) -> String {
    let head = ["case", "per second", "p50 µs", "p99 µs", "beside", "per second", "ratio"];
    let fields = ["case", "per_second", "p50_us", "p99_us", "beside", "beside_per_second", "ratio"];
    let told = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        _ => String::new(),
    };
    let mut lines = vec![head.map(str::to_owned)];
    let cell = |row: &Value, field: &str| match field {
        "per_second" if row["value"].is_number() => told(&row["value"]),
        _ => told(&row[field]),
    };
    lines.extend(rows.iter().map(|row| fields.map(|field| cell(row, field))));
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let line = |cells: &[String; 7]| {
        let cell = |(at, text): (usize, &String)| match head[at] {
            "case" | "beside" => format!("{text:<width$}", width = widths[at]),
            _ => format!("{text:>width$}", width = widths[at]),
        };
        let cells: Vec<_> = cells.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns_and_other_lines_are_no_rows() {
        let lines = [
            r#"{"case":"read","per_second":1200.0,"p50_us":8.5,"ratio":0.9}"#,
            "some words",
            r#"{"other":1}"#,
        ];
        let rows: Vec<_> = lines.iter().filter_map(|line| row(line)).collect();
        assert_eq!(
            table(&rows),
            "case  per second  p50 µs  p99 µs  beside  per second  ratio\n\
             read        1200     8.5                                0.9"
        );
    }
}
