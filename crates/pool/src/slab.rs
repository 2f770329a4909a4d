//! Things under way, by a small number that is used again when they are done.

use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    vacant: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, item: T) -> usize {
        if let Some(at) = self.vacant.pop() {
            self.slots[at] = Some(item);
            return at;
        }
        self.slots.push(Some(item));
        self.slots.len() - 1
    }

    pub fn get(&self, at: usize) -> Option<&T> {
        self.slots.get(at)?.as_ref()
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.slots.get_mut(at)?.as_mut()
    }

    pub fn remove(&mut self, at: usize) -> Option<T> {
        let item = self.slots.get_mut(at)?.take()?;
        self.vacant.push(at);
        Some(item)
    }

    pub fn each(&mut self, change: impl FnMut(&mut T)) {
        self.slots.iter_mut().flatten().for_each(change);
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_ref()?)))
    }
}
