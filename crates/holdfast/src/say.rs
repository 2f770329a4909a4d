//! Words on standard output that nobody need read.
//!
//! `println!` ends the process when the reader is gone, as after `holdfast up | head -1`. What goes
//! on for longer than its first words must not end for that.

use std::{
    fmt,
    io::{Write as _, stdout},
};

/// As `println!`, to whoever still reads.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}

pub(crate) fn line(words: fmt::Arguments<'_>) {
    // There is nobody who could be told.
    let _ = writeln!(stdout().lock(), "{words}");
}
