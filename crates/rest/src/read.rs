//! From the world to what is shown: one kind of resource per file.

mod block_device;
mod host;
mod names;
mod node;
mod pool;
mod replica;
mod share;
mod snapshot;
mod switchover;
mod target;
mod volume;

use model::{Labels, Subject};
use plan::World;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::names::{
    host_id, node_id, node_name, pool_id, readable, snapshot_id, volume_id, volume_name,
};
pub(crate) use self::volume::is_available;
use crate::{Health, Page, Problem, Status, limits, query::Query};

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Nodes,
    Pools,
    Volumes,
    Targets,
    Replicas,
    Snapshots,
    Hosts,
    Shares,
    Switchovers,
    BlockDevices,
}

/// One resource in a list, before it is made: lists are long and pages are not.
struct Item<'a> {
    /// Sorts the list, and names the place where the next page begins.
    key: String,
    labels: Option<&'a Labels>,
    make: Box<dyn Fn() -> Value + 'a>,
}

impl<'a> Item<'a> {
    fn new<T: Serialize>(
        key: impl Into<String>,
        labels: Option<&'a Labels>,
        make: impl Fn() -> T + 'a,
    ) -> Self {
        Self { key: key.into(), labels, make: Box::new(move || value(&make())) }
    }
}

pub(crate) fn list(world: &World, kind: Kind, query: &Query) -> Result<Page<Value>, Problem> {
    let limit = query.limit()?;
    let wanted = query.labels()?;
    let mut items = items(world, kind);
    items.retain(|item| {
        let has = |(key, value): (&String, &String)| {
            item.labels.is_some_and(|labels| labels.get(key) == Some(value))
        };
        wanted.iter().all(has) && query.after().is_none_or(|after| item.key.as_str() > after)
    });
    items.sort_by(|a, b| a.key.cmp(&b.key));
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| last.key.clone());
    Ok(Page { items: items.iter().map(|item| (item.make)()).collect(), next })
}

fn items(world: &World, kind: Kind) -> Vec<Item<'_>> {
    match kind {
        Kind::Nodes => node::items(world),
        Kind::Pools => pool::items(world),
        Kind::Volumes => volume::items(world),
        Kind::Targets => target::items(world),
        Kind::Replicas => replica::items(world),
        Kind::Snapshots => snapshot::items(world),
        Kind::Hosts => host::items(world),
        Kind::Shares => share::items(world),
        Kind::Switchovers => switchover::items(world),
        Kind::BlockDevices => block_device::items(world),
    }
}

/// One resource by its id or name.
pub(crate) fn one(world: &World, kind: Kind, name: &str) -> Result<Value, Problem> {
    let value = match kind {
        Kind::Nodes => value(&node::shown(world, node_id(world, name)?)),
        Kind::Pools => value(&pool::shown(world, pool_id(world, name)?)),
        Kind::Volumes => value(&volume::shown(world, volume_id(world, name)?)),
        Kind::Snapshots => value(&snapshot::shown(world, snapshot_id(world, name)?)),
        Kind::Hosts => value(&host::shown(world, host_id(world, name)?)),
        Kind::Replicas => value(&replica::shown(world, name)),
        Kind::Targets => value(&target::shown(world, volume_id(world, name)?)),
        Kind::Shares => value(&share::shown(world, volume_id(world, name)?)),
        Kind::Switchovers => value(&switchover::shown(world, volume_id(world, name)?)),
        Kind::BlockDevices => value(&block_device::shown(world, name)?),
    };
    if value.is_null() { Err(Problem::not_found(kind.noun(), name)) } else { Ok(value) }
}

impl Kind {
    /// Part of something that has a record of its own.
    pub(crate) const fn is_part(self) -> bool {
        matches!(
            self,
            Self::Targets | Self::Replicas | Self::Shares | Self::Switchovers | Self::BlockDevices
        )
    }

    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Nodes => "node",
            Self::Pools => "pool",
            Self::Volumes => "volume",
            Self::Targets => "target",
            Self::Replicas => "replica",
            Self::Snapshots => "snapshot",
            Self::Hosts => "host",
            Self::Shares => "share",
            Self::Switchovers => "switchover",
            Self::BlockDevices => "block device",
        }
    }
}

/// Health, and the words of what happens next.
fn status(world: &World, subject: Subject) -> Status {
    let plan = plan::plan(world, subject);
    match plan::status(world, subject, &plan) {
        Some(Status { health, words }) => {
            Status { health, words: words.iter().map(|words| readable(world, words)).collect() }
        }
        None => Status { health: Health::Unknown, words: Vec::new() },
    }
}

/// Our own shapes encode: none has a map with keys that are not text.
pub(crate) fn value<T: Serialize>(shape: &T) -> Value {
    serde_json::to_value(shape).unwrap_or(Value::Null)
}

impl Query {
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.get("limit") else { return Ok(limits::PAGE_DEFAULT) };
        let most = limits::PAGE_MAX;
        match text.parse() {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(Problem::field("limit", format!("it must be from 1 to {most}"))),
        }
    }
}
