//! The commands for volumes, nodes and pools, on a controller's REST.

use std::{env, io::stdout, process::ExitCode};

use anyhow::Result;
use rest::Client;

pub(crate) fn run(command: cli::Command) -> Result<ExitCode> {
    let client = client(command.connection().server.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(cli::run(command, &client, &mut stdout()))?)
}

pub(crate) fn doctor(server: Option<String>) -> Result<ExitCode> {
    let client = client(server)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(cli::doctor(&client, &mut stdout()))?)
}

/// The flag, or the environment, or loopback.
pub(crate) fn client(server: Option<String>) -> Result<Client> {
    let server = server.or_else(|| env::var("HOLDFAST_SERVER").ok());
    Ok(Client::new(server.as_deref().unwrap_or(cli::SERVER))?)
}
