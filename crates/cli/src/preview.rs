//! A dry run in words.

use std::io::{self, Write};

use rest::Preview;

pub(crate) fn print(preview: &Preview, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "nothing was done; plan {} at revision {}", preview.plan, preview.revision)?;
    for step in &preview.steps {
        writeln!(out, "  step    {}: {}, because {}", step.about, step.action, step.why)?;
    }
    for wait in &preview.waits {
        writeln!(out, "  then    {wait}")?;
    }
    print_impact(preview, out)
}

/// Only what becomes of volumes.
pub(crate) fn print_impact(preview: &Preview, out: &mut impl Write) -> io::Result<()> {
    for impact in &preview.impact {
        let copies = format!("{} -> {}", impact.copies_before, impact.copies_after);
        write!(out, "  impact  volume {}: copies {copies}, {}", impact.volume, impact.words)?;
        if impact.copied.0 > 0 {
            write!(out, "; {} to copy until it is whole again", impact.copied)?;
        }
        writeln!(out)?;
    }
    Ok(())
}
