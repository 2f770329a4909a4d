//! `holdfast get`.

use std::{io::Write, process::ExitCode};

use rest::Client;
use serde_json::{Value, json};

use crate::{
    CliError,
    arguments::{Get, Kind, Output},
    now,
    table::{self, Around, columns, row},
    watch, yaml,
};

impl Get {
    pub(crate) async fn run(
        self,
        client: &Client,
        out: &mut impl Write,
    ) -> Result<ExitCode, CliError> {
        let found = self.fetch(client).await?;
        print(client, self.kind, self.output, &found, self.name.is_some(), out).await?;
        if self.watch {
            watch::resources(&self, client, found, out).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(crate) async fn fetch(&self, client: &Client) -> Result<Vec<Value>, CliError> {
        if self.kind == Kind::Cluster {
            return Ok(vec![client.get("/v1/cluster").await?]);
        }
        let kind = self.kind.plural();
        if let Some(name) = &self.name {
            let path = format!("/v1/{kind}/{}", rest::encode(name));
            return Ok(vec![client.get(&path).await?]);
        }
        let labels =
            self.labels.as_deref().map(|labels| format!("?labels={}", rest::encode(labels)));
        Ok(client.all(&format!("/v1/{kind}{}", labels.unwrap_or_default())).await?)
    }
}

/// Prints resources as they are asked for.
pub(crate) async fn print(
    client: &Client,
    kind: Kind,
    output: Output,
    found: &[Value],
    is_one: bool,
    out: &mut impl Write,
) -> Result<(), CliError> {
    match output {
        Output::Table | Output::Wide => {
            if found.is_empty() {
                writeln!(out, "no {}", kind.plural())?;
                return Ok(());
            }
            let around = around(client, kind).await?;
            let columns = columns(kind, output == Output::Wide);
            let rows: Vec<_> = found.iter().map(|value| row(&columns, value, &around)).collect();
            table::write(out, &columns, &rows)?;
        }
        Output::Json if is_one => {
            for value in found {
                writeln!(out, "{}", serde_json::to_string_pretty(value)?)?;
            }
        }
        Output::Json => {
            writeln!(out, "{}", serde_json::to_string_pretty(&json!({ "items": found }))?)?;
        }
        Output::Yaml => {
            for (index, value) in found.iter().enumerate() {
                if index > 0 {
                    writeln!(out, "---")?;
                }
                yaml::write(out, value)?;
            }
        }
        Output::Name => {
            for value in found {
                writeln!(out, "{}/{}", kind.singular(), name(value))?;
            }
        }
    }
    Ok(())
}

/// What a resource is called.
pub(crate) fn name(value: &Value) -> &str {
    let places = ["/meta/name", "/replica/id", "/volume", "/name", "/era"];
    places.iter().find_map(|place| value.pointer(place).and_then(Value::as_str)).unwrap_or("-")
}

/// The names that a table needs.
pub(crate) async fn around(client: &Client, kind: Kind) -> Result<Around, CliError> {
    let mut around = Around { now: now(), ..Around::default() };
    if matches!(kind, Kind::Volumes | Kind::Shares) {
        for path in ["/v1/nodes", "/v1/hosts"] {
            for value in client.all::<Value>(path).await? {
                let id = value.pointer("/meta/id").and_then(Value::as_str).unwrap_or_default();
                around.names.insert(id.to_owned(), name(&value).to_owned());
            }
        }
    }
    Ok(around)
}
