//! Tables that fit a terminal: which columns a kind has, and what stands in them.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use model::{Bytes, Millis, Time};
use serde_json::Value;

use crate::arguments::Kind;

/// What is needed besides the resource itself.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub now: Time,
    /// Names of nodes and hosts by their ids.
    pub names: BTreeMap<String, String>,
}

type Cell = fn(&Value, &Around) -> String;

/// The header of a column, and how its cells are made.
pub(crate) struct Column(&'static str, Cell);

impl Column {
    pub(crate) const fn header(&self) -> &'static str {
        self.0
    }
}

pub(crate) fn columns(kind: Kind, wide: bool) -> Vec<Column> {
    let (mut narrow, more): (Vec<Column>, Vec<Column>) = match kind {
        Kind::Nodes => (
            vec![
                Column("NAME", |v, _| text(v, "/meta/name")),
                Column("HEALTH", |v, _| text(v, "/status/health")),
                Column("SCHEDULING", |v, _| scheduling(v)),
                Column("REPLICAS", |v, _| text(v, "/status/replicas")),
                Column("TARGETS", |v, _| text(v, "/status/targets")),
                Column("AGE", age),
            ],
            vec![
                Column("ADDRESS", |v, _| text(v, "/spec/address")),
                Column("LABELS", |v, _| labels(v)),
                Column("ID", |v, _| text(v, "/meta/id")),
            ],
        ),
        Kind::Pools => (
            vec![
                Column("NAME", |v, _| text(v, "/meta/name")),
                Column("NODE", |v, _| text(v, "/node")),
                Column("HEALTH", |v, _| leaving(v)),
                Column("CAPACITY", |v, _| bytes(v, "/status/capacity")),
                Column("USED", |v, _| bytes(v, "/status/used")),
                Column("ROOM", |v, _| bytes(v, "/status/room")),
                Column("REPLICAS", |v, _| text(v, "/status/replicas")),
                Column("AGE", age),
            ],
            vec![
                Column("DISKS", |v, _| list(v, "/spec/disks")),
                Column("ID", |v, _| text(v, "/meta/id")),
            ],
        ),
        Kind::Volumes => volume_columns(),
        Kind::Hosts => (
            vec![
                Column("NAME", |v, _| text(v, "/meta/name")),
                Column("HEALTH", |v, _| text(v, "/status/health")),
                Column("AGE", age),
            ],
            vec![
                Column("NQN", |v, _| text(v, "/spec/nqn")),
                Column("ID", |v, _| text(v, "/meta/id")),
            ],
        ),
        Kind::Snapshots => (
            vec![
                Column("NAME", |v, _| text(v, "/meta/name")),
                Column("VOLUME", |v, _| text(v, "/volume")),
                Column("SIZE", |v, _| bytes(v, "/layout/size")),
                Column("HEALTH", |v, _| text(v, "/status/health")),
                Column("AGE", age),
            ],
            vec![Column("ID", |v, _| text(v, "/meta/id"))],
        ),
        other => part_columns(other),
    };
    if wide {
        narrow.extend(more);
    }
    narrow
}

fn volume_columns() -> (Vec<Column>, Vec<Column>) {
    (
        vec![
            Column("NAME", |v, _| text(v, "/meta/name")),
            Column("SIZE", |v, _| bytes(v, "/spec/size")),
            Column("COPIES", |v, _| {
                format!("{}/{}", text(v, "/status/healthy_copies"), text(v, "/spec/replicas"))
            }),
            Column("HEALTH", |v, _| leaving(v)),
            Column("TARGET", |v, around| named(v, "/layout/target/node", around)),
            Column("HOSTS", |v, around| keys(v, "/layout/hosts", around)),
            Column("AGE", age),
        ],
        vec![
            Column("EPOCH", |v, _| text(v, "/layout/epoch")),
            Column("THIN", |v, _| text(v, "/spec/thin")),
            Column("WHY", |v, _| text(v, "/status/words/0")),
            Column("ID", |v, _| text(v, "/meta/id")),
        ],
    )
}

/// Parts of volumes.
fn part_columns(kind: Kind) -> (Vec<Column>, Vec<Column>) {
    match kind {
        Kind::Targets => (
            vec![
                Column("VOLUME", |v, _| text(v, "/volume")),
                Column("NODE", |v, _| text(v, "/node")),
                Column("EPOCH", |v, _| text(v, "/target/epoch")),
                Column("STAGE", |v, _| text(v, "/target/stage")),
                Column("SEEN", |v, _| text(v, "/seen")),
            ],
            vec![Column("ADDRESS", |v, _| text(v, "/address"))],
        ),
        Kind::Replicas => (
            vec![
                Column("VOLUME", |v, _| text(v, "/volume")),
                Column("POOL", |v, _| text(v, "/pool")),
                Column("NODE", |v, _| text(v, "/node")),
                Column("STAGE", |v, _| text(v, "/replica/stage")),
                Column("HEALTHY", |v, _| text(v, "/healthy")),
                Column("COPIED", |v, _| percent(v, "/copied")),
                Column("SEEN", |v, _| text(v, "/seen")),
            ],
            vec![Column("ID", |v, _| text(v, "/replica/id"))],
        ),
        Kind::Switchovers => (
            vec![
                Column("VOLUME", |v, _| text(v, "/volume")),
                Column("STAGE", |v, _| text(v, "/stage")),
                Column("CAUSE", |v, _| text(v, "/cause")),
            ],
            Vec::new(),
        ),
        Kind::Shares => (
            vec![
                Column("VOLUME", |v, _| text(v, "/volume")),
                Column("STAGE", |v, _| text(v, "/layout/stage")),
                Column("SERVER", |v, around| named(v, "/layout/server", around)),
                Column("ENDPOINT", |v, _| text(v, "/layout/endpoint")),
            ],
            Vec::new(),
        ),
        Kind::BlockDevices => (
            vec![
                Column("NODE", |v, _| text(v, "/node")),
                Column("PATH", |v, _| text(v, "/device/path")),
                Column("SIZE", |v, _| bytes(v, "/device/size")),
                Column("USE", |v, _| used_by(v)),
            ],
            vec![
                Column("MODEL", |v, _| text(v, "/device/model")),
                Column("SERIAL", |v, _| text(v, "/device/serial")),
                Column("ROTATIONAL", |v, _| text(v, "/device/rotational")),
                Column("PARTITIONS", |v, _| list(v, "/device/partitions")),
                Column("NAME", |v, _| text(v, "/name")),
            ],
        ),
        _ => (
            vec![
                Column("ERA", |v, _| text(v, "/era")),
                Column("REVISION", |v, _| text(v, "/revision")),
                Column("NODES", |v, _| text(v, "/nodes")),
                Column("POOLS", |v, _| text(v, "/pools")),
                Column("VOLUMES", |v, _| text(v, "/volumes")),
                Column("LEADER", |v, _| text(v, "/leader")),
            ],
            vec![Column("READ-ONLY", |v, _| text(v, "/read_only"))],
        ),
    }
}

/// The cells of one resource.
pub(crate) fn row(columns: &[Column], value: &Value, around: &Around) -> Vec<String> {
    columns.iter().map(|column| (column.1)(value, around)).collect()
}

/// Columns as wide as their widest cell, two spaces apart, nothing after the last.
pub(crate) fn write(
    out: &mut impl Write,
    columns: &[Column],
    rows: &[Vec<String>],
) -> io::Result<()> {
    let headers: Vec<String> = columns.iter().map(|column| column.0.to_owned()).collect();
    let width = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        cells.chain(headers.get(index)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headers.len()).map(width).collect();
    for row in std::iter::once(&headers).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let gap = if line.is_empty() { "" } else { "  " };
            line.push_str(gap);
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A word, or a dash where there is none: an empty cell would be read as its neighbour.
fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(text)) if text.is_empty() => "-".into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn bytes(value: &Value, pointer: &str) -> String {
    let count = value.pointer(pointer).and_then(Value::as_u64);
    count.map_or_else(|| "-".into(), |count| Bytes(count).to_string())
}

fn percent(value: &Value, pointer: &str) -> String {
    let count = value.pointer(pointer).and_then(Value::as_u64);
    count.map_or_else(|| "-".into(), |count| format!("{count} %"))
}

fn list(value: &Value, pointer: &str) -> String {
    let items = value.pointer(pointer).and_then(Value::as_array);
    let words: Vec<&str> = items.into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() { "-".into() } else { words.join(",") }
}

fn named(value: &Value, pointer: &str, around: &Around) -> String {
    let id = text(value, pointer);
    around.names.get(&id).cloned().unwrap_or(id)
}

fn keys(value: &Value, pointer: &str, around: &Around) -> String {
    let fields = value.pointer(pointer).and_then(Value::as_object);
    let name = |id: &String| around.names.get(id).unwrap_or(id).clone();
    let words: Vec<String> = fields.into_iter().flat_map(|f| f.keys()).map(name).collect();
    if words.is_empty() { "-".into() } else { words.join(",") }
}

fn labels(value: &Value) -> String {
    let fields = value.pointer("/meta/labels").and_then(Value::as_object);
    let pair =
        |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    let words: Vec<String> = fields.into_iter().flatten().map(pair).collect();
    if words.is_empty() { "-".into() } else { words.join(",") }
}

fn scheduling(value: &Value) -> String {
    let is = |pointer: &str| value.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
    let word = match (is("/spec/forgotten"), is("/spec/draining"), is("/spec/cordoned")) {
        (true, ..) => "forgotten",
        (_, true, _) => "draining",
        (_, _, true) => "cordoned",
        _ => "open",
    };
    word.into()
}

/// What lives on a disk, most telling first.
fn used_by(value: &Value) -> String {
    let pool = text(value, "/pool");
    let is = |pointer: &str| value.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
    let (mounted, held) = (list(value, "/device/mounted_at"), list(value, "/device/held_by"));
    match () {
        () if pool != "-" => format!("pool {pool}"),
        () if mounted != "-" => format!("mounted at {mounted}"),
        () if held != "-" => format!("held by {held}"),
        () if list(value, "/device/partitions") != "-" => "partitioned".into(),
        () if is("/device/read_only") => "read-only".into(),
        () => "free".into(),
    }
}

/// Health, or that it is on its way out.
fn leaving(value: &Value) -> String {
    let is = |pointer: &str| value.pointer(pointer) == Some(&Value::Bool(true));
    match (is("/spec/forgotten"), is("/spec/deleting")) {
        (true, _) => "forgotten".into(),
        (_, true) => "deleting".into(),
        _ => text(value, "/status/health"),
    }
}

fn age(value: &Value, around: &Around) -> String {
    let created = value.pointer("/meta/created").and_then(Value::as_u64);
    let Some(created) = created else { return "-".into() };
    let Millis(span) = around.now.since(Time(created));
    let seconds = span / 1_000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
