//! Takes a record whose bytes mean nothing for one that was deleted.

use model::{Change, Entry, Key, Record};
use reconcile::Event;

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "takes-unreadable-for-deleted",
        "takes a record that does not decode for one that was deleted",
        tampered::<TakesUnreadableForDeleted>,
    )
}

#[derive(Default)]
struct TakesUnreadableForDeleted;

impl Tamper for TakesUnreadableForDeleted {
    fn hear(&mut self, _: &dyn Brain, event: Event) -> Option<Event> {
        Some(match event {
            Event::Loaded { mut entries, revision } => {
                entries.retain(is_readable);
                Event::Loaded { entries, revision }
            }
            Event::Changed { revision, changes } => {
                let changes = changes.into_iter().map(|change| match change {
                    Change::Put(entry) if !is_readable(&entry) => {
                        Change::Deleted { key: entry.key, modified: entry.modified }
                    }
                    other => other,
                });
                Event::Changed { revision, changes: changes.collect() }
            }
            other => other,
        })
    }
}

/// A key of another version is not ours to read.
fn is_readable(entry: &Entry) -> bool {
    let Ok(key) = entry.key.parse::<Key>() else { return true };
    Record::decode(&key, &entry.value, entry.modified).is_ok()
}
