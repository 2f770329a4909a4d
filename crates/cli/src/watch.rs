//! What goes on until it is ended: events as they happen, and resources as they change.

use std::{collections::BTreeMap, io::Write, process::ExitCode, time::Duration};

use model::Time;
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
    let at = date(event.at);
    writeln!(out, "{number:>6}  {at}  {severity:<7}  {kind}/{name}  {}", event.words)
}

/// As in RFC 3339, in UTC.
pub(crate) fn date(at: Time) -> String {
    let (days, rest) = (at.0 / 86_400_000, at.0 % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60);
    let millis = rest % 1_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date of a day since 1970. Years begin in March here, so that the leap day is their last.
fn civil(days: u64) -> (u64, u64, u64) {
    // From the first of March of the year 0, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let leaps = of_era / 1_460 + of_era / 146_096;
    let of_400 = (of_era + of_era / 36_524 - leaps) / 365;
    let of_year = of_era - (365 * of_400 + of_400 / 4 - of_400 / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (of_400 + era * 400 + u64::from(month <= 2), month, day)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_794_786_457_548, "2026-11-15T23:47:37.548Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (at, words) in cases {
            assert_eq!(date(Time(at)), words);
        }
    }
}
