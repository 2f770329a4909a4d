//! A part of a world that most steps leave alone: copied when it is changed, hashed once.

use std::{
    cell::Cell,
    hash::{Hash, Hasher},
    ops::{Deref, DerefMut},
    rc::Rc,
};

use super::explore::Folded;

#[derive(Clone, Debug)]
pub(super) struct Shared<T>(Rc<Hashed<T>>);

#[derive(Clone, Debug)]
struct Hashed<T> {
    value: T,
    hash: Cell<Option<u64>>,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Rc::new(Hashed { value, hash: Cell::new(None) }))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        let inner = Rc::make_mut(&mut self.0);
        inner.hash.set(None);
        &mut inner.value
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let hash = self.0.hash.get().unwrap_or_else(|| {
            let mut own = Folded::default();
            self.0.value.hash(&mut own);
            let hash = own.finish();
            self.0.hash.set(Some(hash));
            hash
        });
        hasher.write_u64(hash);
    }
}
