//! What a reactor needs of the kernel, however it is had.

use std::{io, time::Duration};

use crate::{Completion, flight::Flight};

pub(crate) trait Kernel {
    /// Takes it over until it completes.
    fn submit(&mut self, flight: Flight);

    /// Asks those with this token to stop. Each still completes once: cancelled, or as it went.
    fn cancel(&mut self, token: u64);

    /// Starts what was submitted and takes what has completed. Does not block.
    fn poll(&mut self, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// Whether a poll would find something; as cheap as can be.
    fn has_news(&mut self) -> bool;

    /// Sleeps until there is something, the bell rings or the time is up. May return early.
    fn block(&mut self, at_most: Option<Duration>) -> io::Result<()>;

    fn in_flight(&self) -> usize;
}
