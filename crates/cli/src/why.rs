//! `holdfast why`: the causal chain, indented, with the next step.

use std::{io::Write, process::ExitCode};

use rest::{Cause, Client, Health, Why};

use crate::{
    CliError,
    arguments::{Kind, Output},
    yaml,
};

pub(crate) async fn run(
    client: &Client,
    kind: Kind,
    name: &str,
    output: Output,
    out: &mut impl Write,
) -> Result<ExitCode, CliError> {
    let path = format!("/v1/why/{}/{}", kind.singular(), rest::encode(name));
    let why: Why = client.get(&path).await?;
    match output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&why)?)?,
        Output::Yaml => yaml::write(out, &serde_json::to_value(&why)?)?,
        _ => print(&why, out)?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn print(why: &Why, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{} is {}", why.about, why.health)?;
    if let Some(step) = &why.step {
        writeln!(out, "  now: {step}")?;
    }
    for cause in &why.causes {
        chain(cause, 1, out)?;
    }
    if why.step.is_none() && why.causes.is_empty() && why.health == Health::Healthy {
        writeln!(out, "  nothing to do: it is as it was asked for")?;
    }
    Ok(())
}

fn chain(cause: &Cause, depth: usize, out: &mut impl Write) -> std::io::Result<()> {
    let indent = depth * 2;
    writeln!(out, "{:indent$}because {}", "", cause.words)?;
    if let Some(step) = &cause.next_step {
        writeln!(out, "{:indent$}  -> {step}", "")?;
    }
    cause.because.iter().try_for_each(|behind| chain(behind, depth + 1, out))
}
