//! The commands for volumes, nodes and pools, on a controller's REST.

use std::{env, io::stdout, process::ExitCode};

use anyhow::Result;
use cli::Connection;
use rest::Client;

pub(crate) fn run(command: cli::Command) -> Result<ExitCode> {
    let client = client(command.connection())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(cli::run(command, &client, &mut stdout()))?)
}

pub(crate) fn doctor(connection: &Connection) -> Result<ExitCode> {
    let client = client(connection)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(cli::doctor(&client, &mut stdout()))?)
}

/// The flags, or the environment, or loopback.
pub(crate) fn client(connection: &Connection) -> Result<Client> {
    let mut certificates = connection.certificates.clone();
    certificates.pki = certificates.pki.or_else(|| env::var_os("HOLDFAST_PKI").map(Into::into));
    let keyring = certificates.keyring()?;
    let usual = if keyring.is_some() { cli::SECURE_SERVER } else { cli::SERVER };
    let server = connection.server.clone().or_else(|| env::var("HOLDFAST_SERVER").ok());
    Ok(Client::with(server.as_deref().unwrap_or(usual), keyring)?)
}
