//! Starting other programs. Output streams through as it comes.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// `cargo` as the one that started us, so that a toolchain override holds for its children too.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(cargo_program());
    command.current_dir(root);
    command
}

/// The same, ended with all that it started when the time is up. Not for a terminal: its Ctrl-C
/// would not reach the children, which `timeout` puts into a group of their own.
pub(crate) fn cargo_within(root: &Path, limit: Duration) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit.as_secs().to_string()]);
    command.arg(cargo_program()).current_dir(root);
    command
}

fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs `cargo <fixed> <more>` and passes its exit code on.
pub(crate) fn cargo_exit(root: &Path, fixed: &[&str], more: &[String]) -> Result<ExitCode> {
    let status = cargo(root).args(fixed).args(more).status().context("cargo does not start")?;
    // A signal has no code; the shell's convention for "failed otherwise" is as good as any.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

/// Runs the command and says whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let program = command.get_program().to_owned();
    let status =
        command.status().with_context(|| format!("{} does not start", program.display()))?;
    Ok(status.success())
}

/// Runs the command, passes each line of its standard output on and shows it to `seen`.
pub(crate) fn streamed(command: &mut Command, mut seen: impl FnMut(&str)) -> Result<bool> {
    let program = command.get_program().to_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} does not start", program.display()))?;
    let out = child.stdout.take().context("standard output was asked for")?;
    for line in BufReader::new(out).split(b'\n') {
        let line = line.context("reading a child's output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        seen(&line);
    }
    Ok(child.wait().context("waiting for a child")?.success())
}

/// What the command prints, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_owned();
    let out = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} does not start", program.display()))?;
    if !out.status.success() {
        bail!("{} failed: {}", program.display(), out.status);
    }
    Ok(out.stdout)
}

/// Where programs of Python packages are installed: beside what cargo builds.
pub(crate) fn python_tools() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    // This program is in a folder of a profile, in that of all profiles.
    own.ancestors().nth(2).unwrap_or(Path::new("target")).join("python/bin")
}

/// The search path, with those programs behind all others.
pub(crate) fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(env::split_paths(&path).chain([python_tools()])).unwrap_or(path)
}

/// Whether a program of this name is on the search path.
pub(crate) fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(OsStr::new(program)).is_file())
}
