//! The commands for volumes, nodes and pools: what they say, what they send, what they print.
//!
//! They know REST and nothing else of the cluster. Everything is printed into a writer that is
//! given, so that tests see what people see.
#![forbid(unsafe_code)]

mod arguments;
mod certificates;
mod change;
mod confirm;
mod describe;
mod doctor;
mod get;
mod preview;
mod progress;
mod table;
mod watch;
mod why;
mod yaml;

use std::{
    io::Write,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

pub use arguments::{Command, Connection};
pub use certificates::{Certificates, CertificatesError};
pub use doctor::doctor;
use model::Time;
use rest::{Client, ClientError};

/// Where the controller is, if nothing else is said.
pub const SERVER: &str = "http://127.0.0.1:7421";
/// The same, for whoever has a certificate.
pub const SECURE_SERVER: &str = "https://127.0.0.1:7421";

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("printing failed")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Usage(String),
    #[error("the answer cannot be read")]
    Garbled(#[from] serde_json::Error),
}

/// Does what a command says, and prints what came of it.
pub async fn run(
    command: Command,
    client: &Client,
    out: &mut impl Write,
) -> Result<ExitCode, CliError> {
    match command {
        Command::Get(get) => get.run(client, out).await,
        Command::Describe { kind, name, .. } => describe::run(client, kind, &name, out).await,
        Command::Why { kind, name, output, .. } => why::run(client, kind, &name, output, out).await,
        Command::Events { follow, after, .. } => watch::events(client, follow, after, out).await,
        change => change::run(change, client, out).await,
    }
}

/// Wall time.
fn now() -> Time {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}
