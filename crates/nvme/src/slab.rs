//! Things with keys that are found in one step and never mistaken for their successors.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    /// How often the place was used before.
    generation: u32,
}

impl Key {
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    thing: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, thing: T) -> Key {
        self.insert_with(|_| thing)
    }

    /// For a thing that knows its key.
    pub(crate) fn insert_with(&mut self, thing: impl FnOnce(Key) -> T) -> Key {
        if let Some(index) = self.free.pop()
            && let Some(place) = self.places.get_mut(index as usize)
        {
            let key = Key { index, generation: place.generation };
            place.thing = Some(thing(key));
            return key;
        }
        let index = u32::try_from(self.places.len()).expect("far fewer things than that");
        let key = Key { index, generation: 0 };
        self.places.push(Place { generation: 0, thing: Some(thing(key)) });
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        place.thing.as_ref().filter(|_| place.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        place.thing.as_mut().filter(|_| place.generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let thing = place.thing.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(thing)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0u32..).zip(&self.places).filter_map(|(index, place)| {
            let thing = place.thing.as_ref()?;
            Some((Key { index, generation: place.generation }, thing))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        (0u32..).zip(&mut self.places).filter_map(|(index, place)| {
            let thing = place.thing.as_mut()?;
            Some((Key { index, generation: place.generation }, thing))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
