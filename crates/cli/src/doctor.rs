//! `holdfast doctor` on a running cluster: the promises, checked on its stored records.

use std::{io::Write, process::ExitCode};

use invariants::{PROMISES, Records, check_all};
use model::{Key, Record, Write as Put};
use rest::{Client, ClusterShown, RecordShown};

use crate::CliError;

/// Reads every record twice if it must: records that change between two pages would be judged by
/// halves of different moments.
const TRIES: usize = 5;

pub async fn doctor(client: &Client, out: &mut impl Write) -> Result<ExitCode, CliError> {
    let mut before: ClusterShown = client.get("/v1/cluster").await?;
    let mut records: Vec<RecordShown> = client.all("/v1/records").await?;
    for _ in 1..TRIES {
        let after: ClusterShown = client.get("/v1/cluster").await?;
        if after.revision == before.revision {
            break;
        }
        before = after;
        records = client.all("/v1/records").await?;
    }
    let mut findings: Vec<String> = Vec::new();
    let mut writes = Vec::new();
    for shown in records {
        let Ok(key) = shown.key.parse::<Key>() else {
            // Of a newer version, beside which this one works: nothing is wrong with it.
            writeln!(out, "not judged   {}: this version has no such records", shown.key)?;
            continue;
        };
        match Record::decode(&key, shown.value.to_string().as_bytes(), shown.modified) {
            Ok(record) => writes.push(Put::put(key, record)),
            Err(error) => findings.push(format!("quarantined  {error}")),
        }
    }
    let records = Records::loaded(before.revision, &writes);
    findings.extend(check_all(&records).iter().map(|broken| format!("broken       {broken}")));
    findings.extend(before.read_only.map(|why| format!("read-only    {why}")));
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    let (promises, count) = (PROMISES.len(), findings.len());
    writeln!(out, "{promises} promises checked on {} records, {count} findings", writes.len())?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
