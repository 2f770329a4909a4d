//! The flights inside the ring, by the number that their entries carry.

use super::entry::Scratch;
use crate::flight::Flight;

#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

/// A place for one flight, and memory that its entry points to. The place may move; what the kernel
/// is told of lies on the heap and stays.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub flight: Option<Flight>,
    pub scratch: Scratch,
}

impl Slots {
    pub fn insert(&mut self, flight: Flight) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[index].flight = Some(flight);
        index
    }

    /// To be called only when the kernel has answered for it, or has never heard of it.
    pub fn remove(&mut self, index: usize) -> Option<Flight> {
        let flight = self.slots.get_mut(index)?.flight.take()?;
        self.free.push(index);
        Some(flight)
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Slot> {
        self.slots.get_mut(index)
    }

    pub fn taken(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Marks those with this token and returns where they are.
    pub fn cancel(&mut self, token: u64) -> Vec<usize> {
        self.cancel_if(|flight| flight.token == token)
    }

    pub fn cancel_all(&mut self) -> Vec<usize> {
        self.cancel_if(|_| true)
    }

    fn cancel_if(&mut self, is_meant: impl Fn(&Flight) -> bool) -> Vec<usize> {
        let mut found = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(flight) = slot.flight.as_mut().filter(|flight| is_meant(flight)) {
                flight.cancelled = true;
                found.push(index);
            }
        }
        found
    }
}
