//! A broken promise, in words for people.

use alloc::{string::String, vec::Vec};
use core::fmt;

use model::Key;

use crate::Promise;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise's name, which is also its file's.
    pub promise: &'static str,
    /// The record it is about; a volume's membership counts as the volume.
    pub subject: Key,
    pub words: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken by {}: {}", self.promise, self.subject, self.words)
    }
}

/// Collects what is broken, under the promise that is being judged.
#[derive(Debug, Default)]
pub(crate) struct Report {
    promise: &'static str,
    broken: Vec<Broken>,
}

impl Report {
    pub(crate) fn judging(&mut self, promise: &Promise) {
        self.promise = promise.name;
    }

    pub(crate) fn broken(&mut self, subject: Key, words: impl Into<String>) {
        self.broken.push(Broken { promise: self.promise, subject, words: words.into() });
    }

    pub(crate) fn done(self) -> Vec<Broken> {
        self.broken
    }
}
