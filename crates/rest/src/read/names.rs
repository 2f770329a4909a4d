//! Ids and names: users say either, and read names.

use model::{HostId, Key, NodeId, PoolId, SnapshotId, VolumeId};
use plan::World;
use uuid::Uuid;

use crate::Problem;

macro_rules! by_name {
    ($function:ident, $id:ident, $variant:ident, $field:ident, $kind:literal) => {
        /// The id of an id or a name.
        pub(crate) fn $function(world: &World, text: &str) -> Result<$id, Problem> {
            let id = text.parse::<$id>().ok().filter(|id| world.$field.contains_key(id));
            let named = || {
                let key = ($kind.to_owned(), text.to_owned());
                world.names.get(&key).and_then(|id| id.parse().ok())
            };
            let found = id.or_else(named).filter(|id| world.$field.contains_key(id));
            // A record that does not decode is there: its name still leads to its id.
            let unread = || text.parse::<$id>().ok().or_else(named).map(Key::$variant);
            found.ok_or_else(|| absent(world, unread(), $kind, text))
        }
    };
}

by_name!(pool_id, PoolId, Pool, pools, "pool");
by_name!(volume_id, VolumeId, Volume, volumes, "volume");
by_name!(snapshot_id, SnapshotId, Snapshot, snapshots, "snapshot");

/// Why nothing is shown of something: there is none, or its record does not decode.
fn absent(world: &World, key: Option<Key>, kind: &str, text: &str) -> Problem {
    match key.and_then(|key| world.unreadable(&key)) {
        Some(found) => Problem::unreadable(found),
        None => Problem::not_found(kind, text),
    }
}

/// Also by the name of a record whose name another one had first: engines name themselves.
pub(crate) fn node_id(world: &World, text: &str) -> Result<NodeId, Problem> {
    let id = text.parse().ok().filter(|id| world.nodes.contains_key(id));
    let named = || world.nodes.values().map(|view| &view.record.meta).find(|m| m.name == text);
    let found = id.or_else(|| named().map(|meta| meta.id));
    let unread = || {
        let named = world.names.get(&("node".to_owned(), text.to_owned()));
        let id = text.parse().ok().or_else(|| named?.parse().ok());
        id.map(Key::Node)
    };
    found.ok_or_else(|| absent(world, unread(), "node", text))
}

/// Hosts name themselves; of several with one name, only the id tells them apart.
pub(crate) fn host_id(world: &World, text: &str) -> Result<HostId, Problem> {
    if let Some(id) = text.parse().ok().filter(|id| world.hosts.contains_key(id)) {
        return Ok(id);
    }
    let metas = world.hosts.values().map(|view| &view.record.meta);
    let mut named = metas.filter(|meta| meta.name == text);
    match (named.next(), named.next()) {
        (Some(meta), None) => Ok(meta.id),
        (Some(_), Some(_)) => {
            let detail = format!("several hosts are named {text:?}: say which by its id");
            Err(Problem::new("conflict", detail))
        }
        (None, _) => Err(absent(world, text.parse().ok().map(Key::Host), "host", text)),
    }
}

pub(crate) fn node_name(world: &World, id: NodeId) -> String {
    world.node(id).map_or_else(|| id.to_string(), |view| view.record.meta.name.clone())
}

pub(crate) fn pool_name(world: &World, id: PoolId) -> String {
    world.pools.get(&id).map_or_else(|| id.to_string(), |view| view.record.meta.name.clone())
}

pub(crate) fn volume_name(world: &World, id: VolumeId) -> String {
    world.volume(id).map_or_else(|| id.to_string(), |view| view.record.meta.name.clone())
}

/// Words with names in them in place of ids, where there are names.
pub(crate) fn readable(world: &World, words: &str) -> String {
    const LENGTH: usize = 36;
    let mut shown = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(place) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let (before, from) = rest.split_at(place);
        shown.push_str(before);
        let id = from.get(..LENGTH).and_then(|text| Uuid::try_parse(text).ok());
        if let Some(name) = id.and_then(|id| name_of(world, id)) {
            shown.push_str(&name);
            rest = &from[LENGTH..];
            continue;
        }
        // An id is not within a word: the whole word is passed over.
        let end = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(from.len());
        let (passed, after) = from.split_at(end.max(1));
        shown.push_str(passed);
        rest = after;
    }
    shown.push_str(rest);
    shown
}

fn name_of(world: &World, id: Uuid) -> Option<String> {
    let node = world.node(NodeId(id)).map(|view| &view.record.meta.name);
    let pool = || world.pools.get(&PoolId(id)).map(|view| &view.record.meta.name);
    let host = || world.hosts.get(&HostId(id)).map(|view| &view.record.meta.name);
    let volume = || world.volume(VolumeId(id)).map(|view| &view.record.meta.name);
    let snapshot = || world.snapshots.get(&SnapshotId(id)).map(|record| &record.meta.name);
    node.or_else(pool).or_else(host).or_else(volume).or_else(snapshot).cloned()
}
