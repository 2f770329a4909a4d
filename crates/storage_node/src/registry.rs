//! Entries by id, found in one step by whoever has found them before.
//!
//! Ids are long and maps of them deep. Who asks for the same entry with every command (a session
//! for its replica, a replica for its pool) keeps a handle: the id, and the place where its entry
//! lay. The entry of a handle is always that of its id: one that has moved is found by its id.

use alloc::{collections::BTreeMap, vec::Vec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle<K> {
    pub(crate) id: K,
    place: u32,
}

#[derive(Debug)]
pub(crate) struct Registry<K, V> {
    places: Vec<Option<(K, V)>>,
    free: Vec<u32>,
    by_id: BTreeMap<K, u32>,
}

/// Of a handle whose id had no entry.
const NOWHERE: u32 = u32::MAX;

impl<K, V> Default for Registry<K, V> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), by_id: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, V> Registry<K, V> {
    /// In place of what was there.
    pub(crate) fn insert(&mut self, id: K, entry: V) -> Handle<K> {
        let place = self.by_id.get(&id).copied().or_else(|| self.free.pop());
        let place = place.unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).expect("far fewer entries than that")
        });
        self.places[place as usize] = Some((id, entry));
        self.by_id.insert(id, place);
        Handle { id, place }
    }

    pub(crate) fn remove(&mut self, id: &K) -> Option<V> {
        let place = self.by_id.remove(id)?;
        self.free.push(place);
        self.places.get_mut(place as usize)?.take().map(|(_, entry)| entry)
    }

    /// Whether or not there is an entry.
    pub(crate) fn handle(&self, id: K) -> Handle<K> {
        Handle { id, place: self.by_id.get(&id).copied().unwrap_or(NOWHERE) }
    }

    pub(crate) fn at(&self, handle: Handle<K>) -> Option<&V> {
        match self.places.get(handle.place as usize) {
            Some(Some((id, entry))) if *id == handle.id => Some(entry),
            _ => self.get(&handle.id),
        }
    }

    pub(crate) fn at_mut(&mut self, handle: Handle<K>) -> Option<&mut V> {
        let is_there = matches!(
            self.places.get(handle.place as usize),
            Some(Some((id, _))) if *id == handle.id
        );
        if !is_there {
            return self.get_mut(&handle.id);
        }
        self.places.get_mut(handle.place as usize)?.as_mut().map(|(_, entry)| entry)
    }

    pub(crate) fn get(&self, id: &K) -> Option<&V> {
        let place = self.by_id.get(id)?;
        self.places.get(*place as usize)?.as_ref().map(|(_, entry)| entry)
    }

    pub(crate) fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        let place = self.by_id.get(id)?;
        self.places.get_mut(*place as usize)?.as_mut().map(|(_, entry)| entry)
    }

    pub(crate) fn contains_key(&self, id: &K) -> bool {
        self.by_id.contains_key(id)
    }

    /// In rising order, as all that follow.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.by_id.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.by_id.values().filter_map(|place| {
            let (id, entry) = self.places.get(*place as usize)?.as_ref()?;
            Some((id, entry))
        })
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, entry)| entry)
    }

    /// Changes each of them.
    pub(crate) fn each(&mut self, mut change: impl FnMut(Handle<K>, &mut V)) {
        for (id, place) in &self.by_id {
            if let Some(Some((_, entry))) = self.places.get_mut(*place as usize) {
                change(Handle { id: *id, place: *place }, entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_finds_the_entry_of_its_id_wherever_that_lies() {
        let mut all = Registry::default();
        let nobody = all.handle('a');
        let (a, b) = (all.insert('a', 1), all.insert('b', 2));
        assert_eq!([all.at(nobody), all.at(a), all.at(b)], [Some(&1), Some(&1), Some(&2)]);
        all.remove(&'a');
        assert_eq!((all.at(a).copied(), all.at_mut(a)), (None, None));
        // Another one lies where it lay, and it lies elsewhere.
        all.insert('c', 3);
        all.insert('a', 4);
        assert_eq!((all.at(a).copied(), all.at_mut(b)), (Some(4), Some(&mut 2)));
        assert!(all.iter().eq([(&'a', &4), (&'b', &2), (&'c', &3)]));
    }

    #[test]
    fn an_entry_takes_the_place_of_the_one_before() {
        let mut all = Registry::default();
        let a = all.insert('a', 1);
        assert_eq!(all.insert('a', 2), a);
        all.each(|_, entry| *entry += 1);
        assert!(all.values().eq([&3]));
    }
}
