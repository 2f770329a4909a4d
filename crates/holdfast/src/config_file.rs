//! A process's config file: the same words as its flags, which win over it.
//!
//! ```toml
//! listen = "10.0.0.1:4420"
//! controller = ["10.0.0.1:7420", "10.0.0.2:7420"]
//! ```
//! What the file says is put behind the command line and read by the same parser, so that a word
//! means the same in both, and what is wrong is said in the same way.

use std::{ffi::OsString, fs, path::PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Arg, ArgMatches, Command, parser::ValueSource};
use toml::{Table, Value};
use tracing::info;

/// Flags that say nothing in a file.
const NOT_IN_FILES: &[&str] = &["config", "help", "with-parent"];

/// The command line, with what the file of its `--config` adds. Ends the process where the command
/// line itself is wrong, or asks for help.
pub(crate) fn parse(command: &Command, words: Vec<OsString>) -> Result<ArgMatches> {
    let given = command.clone().get_matches_from(&words);
    let Some((process, path)) = named(&given) else { return Ok(given) };
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let table: Table = text.parse().with_context(|| format!("in {}", path.display()))?;
    let known = command.find_subcommand(process).context("no such process")?;
    let of_process = given.subcommand_matches(process).context("no such process")?;
    let more = more(known, of_process, &table).with_context(|| format!("in {}", path.display()))?;
    let all = words.into_iter().chain(more);
    let parsed = command.clone().try_get_matches_from(all);
    parsed.map_err(|error| anyhow!("in {}: {}", path.display(), error.render()))
}

fn named(given: &ArgMatches) -> Option<(&str, PathBuf)> {
    let (process, of_process) = given.subcommand()?;
    let path = of_process.try_get_one::<PathBuf>("config").ok()??;
    Some((process, path.clone()))
}

fn more(known: &Command, given: &ArgMatches, table: &Table) -> Result<Vec<OsString>> {
    let mut words = Vec::new();
    for (key, value) in table {
        let argument = argument(known, key)?;
        let id = argument.get_id().as_str();
        if given.value_source(id) != Some(ValueSource::CommandLine) {
            words.extend(said(argument, key, value)?);
        }
    }
    Ok(words)
}

fn argument<'a>(known: &'a Command, key: &str) -> Result<&'a Arg> {
    let usable = || {
        let named =
            |argument: &&Arg| argument.get_long().is_some_and(|long| !NOT_IN_FILES.contains(&long));
        known.get_arguments().filter(named)
    };
    if let Some(found) = usable().find(|argument| argument.get_long() == Some(key)) {
        return Ok(found);
    }
    let words: Vec<&str> = usable().filter_map(Arg::get_long).collect();
    bail!("`{key}` is no word of this file; there are {}", words.join(", "))
}

/// A value as a command line says it.
fn said(argument: &Arg, key: &str, value: &Value) -> Result<Vec<OsString>> {
    let flag = |text: &dyn std::fmt::Display| OsString::from(format!("--{key}={text}"));
    if !argument.get_action().takes_values() {
        return match value {
            Value::Boolean(true) => Ok(vec![format!("--{key}").into()]),
            Value::Boolean(false) => Ok(Vec::new()),
            _ => bail!("`{key}` must be true or false"),
        };
    }
    match value {
        Value::String(text) => Ok(vec![flag(text)]),
        Value::Integer(number) => Ok(vec![flag(number)]),
        Value::Array(items) => {
            let each = items.iter().map(|item| match item {
                Value::Array(_) => bail!("`{key}` must be a list of texts"),
                item => said(argument, key, item),
            });
            Ok(each.collect::<Result<Vec<_>>>()?.concat())
        }
        _ => bail!("`{key}` must be a text, a number, or a list of them"),
    }
}

/// Where a process finds its file.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigFile {
    /// A TOML file with the same words as the flags; flags win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// Which file was read, for the log.
    pub(crate) fn tell(&self) {
        if let Some(path) = &self.config {
            info!(path = %path.display(), "config file read");
        }
    }
}

#[cfg(test)]
mod tests;
