//! `holdfast describe`.

use std::{io::Write, process::ExitCode};

use rest::{Client, EventShown};
use serde_json::Value;

use crate::{CliError, arguments::Kind, watch, yaml};

/// The newest events that are shown.
const EVENTS: usize = 10;

pub(crate) async fn run(
    client: &Client,
    kind: Kind,
    name: &str,
    out: &mut impl Write,
) -> Result<ExitCode, CliError> {
    let path = match kind {
        Kind::Cluster => "/v1/cluster".to_owned(),
        kind => format!("/v1/{}/{}", kind.plural(), rest::encode(name)),
    };
    let value: Value = client.get(&path).await?;
    yaml::write(out, &value)?;
    let id = value.pointer("/meta/id").and_then(Value::as_str).unwrap_or_default();
    let events: Vec<EventShown> = client.all("/v1/events").await?;
    let about =
        |shown: &&EventShown| !id.is_empty() && shown.event.subject.to_string().ends_with(id);
    let mut told: Vec<&EventShown> = events.iter().rev().filter(about).take(EVENTS).collect();
    told.reverse();
    if !told.is_empty() {
        writeln!(out, "events:")?;
    }
    for event in told {
        watch::print(event, out)?;
    }
    Ok(ExitCode::SUCCESS)
}
