//! Asking a person before something is lost.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stderr, stdin};

use crate::CliError;

/// Goes on only if a person at the terminal agrees. Where there is none, nobody agrees.
pub(crate) fn confirm(question: &str) -> Result<(), CliError> {
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        let words = "nothing was done: --force needs --yes where nobody can be asked";
        return Err(CliError::Usage(words.into()));
    }
    write!(stderr(), "{question} [y/N] ")?;
    stderr().flush()?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(CliError::Usage("nothing was done".into())),
    }
}
