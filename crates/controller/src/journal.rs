//! What the store says to people and not to the planner: events, and who leads.

use std::collections::BTreeMap;

use model::{Change, Entry, Event, Key, Record};
use rest::Lead;

/// The events that the store holds, which are bounded there.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    events: BTreeMap<u64, Event>,
    lead: Lead,
    term: u64,
}

impl Journal {
    /// By their numbers, which only grow.
    pub(crate) const fn events(&self) -> &BTreeMap<u64, Event> {
        &self.events
    }

    /// Who leads, as the store tells; whether it is this controller is not known here.
    pub(crate) const fn lead(&self) -> &Lead {
        &self.lead
    }

    pub(crate) fn load(&mut self, entries: &[Entry]) {
        *self = Self::default();
        for entry in entries {
            self.put(entry);
        }
    }

    pub(crate) fn change(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(entry) => self.put(entry),
                Change::Deleted { key, .. } => match key.parse() {
                    Ok(Key::Event(number)) => {
                        self.events.remove(&number);
                    }
                    Ok(Key::Leader) => self.lead.is_taken = false,
                    _ => {}
                },
            }
        }
    }

    fn put(&mut self, entry: &Entry) {
        let Ok(key) = entry.key.parse::<Key>() else { return };
        if !matches!(key, Key::Event(_) | Key::Leader | Key::Term(_)) {
            return;
        }
        match (&key, Record::decode(&key, &entry.value, entry.modified)) {
            (Key::Event(number), Ok(Record::Event(event))) => {
                self.events.insert(*number, *event);
            }
            (Key::Leader, Ok(_)) => self.lead.is_taken = true,
            (Key::Term(number), Ok(Record::Term(term))) if *number >= self.term => {
                self.term = *number;
                self.lead.address = term.address;
            }
            _ => {}
        }
    }
}
