//! How far something is, on a terminal's error output.

use std::{
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// Says so a few times a second, and only to people.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    whole: u64,
    said: Option<Instant>,
    is_watched: bool,
}

const OFTEN: Duration = Duration::from_millis(200);

impl Progress {
    pub(super) fn new(what: &'static str, whole: u64) -> Self {
        Self { what, whole, said: None, is_watched: std::io::stderr().is_terminal() }
    }

    pub(super) fn at(&mut self, done: u64) {
        if !self.is_watched || self.said.is_some_and(|said| said.elapsed() < OFTEN) {
            return;
        }
        self.said = Some(Instant::now());
        let percent = done.saturating_mul(100) / self.whole.max(1);
        eprint!("\r{} {percent:3} %", self.what);
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.said.is_some() {
            eprint!("\r{:width$}\r", "", width = self.what.len() + 6);
        }
    }
}
