//! The real binary as processes, and a mirrored volume that they serve.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

pub const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
pub const SIZE: u64 = 64 << 20;

/// A process that ends with the test, and the first word of its output that was waited for.
pub struct Running {
    child: Child,
    /// Kept open, so that it can go on printing.
    out: BufReader<ChildStdout>,
    pub word: String,
}

impl Running {
    /// Returns when it has printed a line that begins like this; keeps that line's last word.
    pub fn start(folder: &Path, args: &[&str], awaited: &str) -> Self {
        let mut command = Command::new(HOLDFAST);
        command.current_dir(folder).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, out, word: String::new() };
        let mut line = String::new();
        while !line.starts_with(awaited) {
            line.clear();
            assert!(running.out.read_line(&mut line).unwrap() > 0, "{args:?} ended");
        }
        running.word = line.split_whitespace().next_back().unwrap().into();
        running
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended by itself.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) {
        let id = self.child.id().to_string();
        succeed(Command::new("kill").args(["-TERM", &id]));
        assert!(self.ended().success());
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mirrored volume on two files.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self::on_disks(&["a.pool", "b.pool"])
    }

    pub fn on_disks(disks: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let spec = format!(
            "listen = \"{port}\"\nstate = \"state\"\n\
             [[volume]]\nname = \"data\"\nsize = \"{SIZE}\"\ndisks = {disks:?}\n"
        );
        fs::write(folder.path().join("spec.toml"), spec).unwrap();
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn serve(&self) -> Running {
        Running::start(self.folder.path(), &["engine", "--serve", "spec.toml"], "data ")
    }

    pub fn nbd(&self, uri: &str) -> Running {
        let socket = self.path("nbd");
        let args = ["disk", "nbd", uri, "--listen", socket.to_str().unwrap()];
        Running::start(self.folder.path(), &args, "nbd")
    }

    pub fn disk(&self, args: &[&str]) -> Command {
        let mut command = Command::new(HOLDFAST);
        command.current_dir(self.folder.path()).arg("disk").args(args);
        command
    }
}

pub fn succeed(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}
