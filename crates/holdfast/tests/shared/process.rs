//! The binary as processes: run to their end, or killed when they are dropped.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
};

/// A process, killed when it is dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn holdfast(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(words).stdin(Stdio::null()).env_remove("HOLDFAST_PKI");
    command
}

/// A controller, and its address for users.
pub struct Controller {
    pub process: Process,
    pub rest: String,
}

impl Controller {
    /// It tells in its log where it listens: the ports are its own choice.
    pub fn start(words: &[&str]) -> Self {
        let command = [&["controller"], words].concat();
        let mut child = holdfast(&command).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut lines = log.lines().map(Result::unwrap);
        let line = lines.find(|line| line.contains("rest")).unwrap();
        let plain: String =
            line.split('\u{1b}').map(|part| part.trim_start_matches(|c| c != 'm')).collect();
        let address = plain.rsplit("127.0.0.1:").next().unwrap();
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        // Nobody reads on, and a full pipe must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process: Process(child), rest: format!("127.0.0.1:{port}") }
    }
}

/// Whether it succeeded, and all that it said.
pub fn said(command: &mut Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}
