//! What goes on until it is ended: events as they happen, and resources as they change.

use std::{collections::BTreeMap, io::Write, process::ExitCode, time::Duration};

use rest::{Client, EventShown};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::{
    CliError,
    arguments::{Get, Output},
    get,
    table::{columns, row},
};

/// Statuses change without an event (progress, liveness): they are looked at this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn events(
    client: &Client,
    follow: bool,
    after: Option<u64>,
    out: &mut impl Write,
) -> Result<ExitCode, CliError> {
    let path = after.map_or("/v1/events".into(), |after| format!("/v1/events?after={after}"));
    // `all` pages by `after` itself, so only the first page may have one.
    let past: Vec<EventShown> = match after {
        None => client.all("/v1/events").await?,
        Some(_) => client.get::<rest::Page<EventShown>>(&path).await?.items,
    };
    for event in &past {
        print(event, out)?;
    }
    if follow {
        let last = past.last().map(|event| event.number).or(after);
        let mut stream = client.events(last).await?;
        while let Some(event) = stream.next().await? {
            print(&event, out)?;
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn print(shown: &EventShown, out: &mut impl Write) -> std::io::Result<()> {
    let EventShown { number, event } = shown;
    let kind = event.subject.to_string();
    let kind = kind.split(' ').next().unwrap_or_default();
    let (severity, name) = (event.severity, &event.name);
    writeln!(out, "{number:>6}  {}  {severity:<7}  {kind}/{name}  {}", event.at, event.words)
}

/// Prints each resource again when its row changes.
pub(crate) async fn resources(
    get: &Get,
    client: &Client,
    found: Vec<Value>,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let columns = columns(get.kind, get.output == Output::Wide);
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let around = get::around(client, get.kind).await?;
    for value in found {
        known.insert(get::name(&value).to_owned(), row(&columns, &value, &around));
    }
    let mut stream = client.events(None).await?;
    loop {
        let until = Instant::now() + LOOK_EVERY;
        if let Ok(ended) = timeout(LOOK_EVERY, stream.next()).await
            && ended?.is_none()
        {
            return Ok(());
        }
        // Several events of one moment are one look.
        tokio::time::sleep_until(until.min(Instant::now() + LOOK_EVERY / 5)).await;
        let around = get::around(client, get.kind).await?;
        let now = get.fetch(client).await?;
        for value in &now {
            let name = get::name(value).to_owned();
            // The age changes always and says nothing.
            let cells = row(&columns, value, &around);
            let is_news = known.get(&name).is_none_or(|old| differs(&columns, old, &cells));
            if is_news {
                writeln!(out, "{}", cells.join("  "))?;
                out.flush()?;
                known.insert(name, cells);
            }
        }
        known.retain(|name, _| now.iter().any(|value| get::name(value) == name));
    }
}

fn differs(columns: &[crate::table::Column], old: &[String], new: &[String]) -> bool {
    let cells = columns.iter().zip(old.iter().zip(new));
    cells.into_iter().any(|(column, (old, new))| column.header() != "AGE" && old != new)
}
