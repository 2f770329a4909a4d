//! `holdfast disk`: a volume in use over NVMe/TCP, without a kernel in between.

mod bench;
mod progress;
mod verify;

use std::{
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use block::BLOCK;
use clap::{Args, Subcommand, ValueEnum};
use disk::{Client, Options, Uri, serve_nbd::End};
use model::Bytes;
use nvme::Digests;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use uring::{Listener, Waker};

use crate::listen::{Trust, allow};

#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Connect and say what is there
    #[command(name = "info")]
    Look {
        #[command(flatten)]
        to: To,
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Write every block once, so that `verify` can judge it; what is there is lost
    Fill(verify::Fill),
    /// Check every block against a ledger, write and read at random, and check again
    Verify(verify::Verify),
    /// Measure reads or writes; writing overwrites what is there
    Bench(bench::Bench),
    /// Serve the volume as NBD, for programs that know no NVMe; ends with a signal
    Nbd {
        #[command(flatten)]
        to: To,
        /// A path for a unix socket, or ADDRESS:PORT
        #[arg(long, value_name = "PATH|ADDRESS:PORT")]
        listen: String,
        /// Listen beyond loopback: anyone who reaches it may read and write the volume
        #[arg(long)]
        insecure: bool,
        /// End when the last client has gone
        #[arg(long)]
        once: bool,
    },
}

/// A volume, and how to connect to it.
#[derive(Clone, Debug, Args)]
pub(crate) struct To {
    /// nvme-tcp://HOST:PORT[,HOST:PORT...]/NQN; of several addresses one that serves is used
    uri: Uri,
    /// The name to connect with [default: a new one]
    #[arg(long, value_name = "NQN")]
    host_nqn: Option<String>,
    /// Give up when no address has worked for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    patience: u64,
    /// Checksums on the wire
    #[arg(long)]
    digests: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

impl To {
    fn connect(&self) -> Result<Client> {
        self.connect_for(0)
    }

    /// With room for so many commands under way.
    fn connect_for(&self, depth: usize) -> Result<Client> {
        let mut options = Options {
            patience: Duration::from_secs(self.patience),
            digests: Digests { header: self.digests, data: self.digests },
            ..Options::default()
        };
        if let Some(nqn) = &self.host_nqn {
            options.host_nqn.clone_from(nqn);
        }
        options.entries = options.entries.max(u16::try_from(depth + 1).unwrap_or(u16::MAX));
        Client::connect(&self.uri, options).context("connecting")
    }
}

impl DiskCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Look { to, output } => describe(&to, output)?,
            Self::Fill(command) => command.run()?,
            Self::Verify(command) => return command.run(),
            Self::Bench(command) => command.run()?,
            Self::Nbd { to, listen, insecure, once } => {
                let end = End { with_last: once, ..End::default() };
                serve_nbd(&to, &listen, insecure, &end)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn describe(to: &To, output: Output) -> Result<()> {
    let client = to.connect()?;
    let seen = client.attached();
    let size = Bytes(seen.blocks.saturating_mul(BLOCK as u64));
    let address = client.address().map(|address| address.to_string()).unwrap_or_default();
    if output == Output::Json {
        let seen = json!({
            "nqn": to.uri.nqn,
            "address": address,
            "uuid": seen.uuid,
            "size": size.0,
            "blocks": seen.blocks,
            "controller": seen.cntlid,
            "ana": format!("{:?}", seen.ana),
            "max_transfer": seen.max_transfer,
            "write_cache": seen.has_write_cache,
        });
        println!("{seen:#}");
        return Ok(());
    }
    let uuid = seen.uuid.map_or_else(|| "none".into(), |uuid| uuid.to_string());
    println!("name          {}", to.uri.nqn);
    println!("served at     {address}, controller {}, {:?}", seen.cntlid, seen.ana);
    println!("volume        {uuid}");
    println!("size          {size}, {} blocks of {BLOCK} bytes", seen.blocks);
    println!("one command   {}", Bytes(u64::try_from(seen.max_transfer).unwrap_or(u64::MAX)));
    println!("write cache   {}", if seen.has_write_cache { "yes: flush matters" } else { "no" });
    Ok(())
}

fn serve_nbd(to: &To, listen: &str, insecure: bool, end: &End) -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut client = to.connect()?;
    let (listener, uri) = if let Ok(address) = listen.parse::<SocketAddr>() {
        let trust = if insecure { Trust::Anyone } else { Trust::Loopback };
        allow("programs that speak NBD", address, trust)?;
        let listener = Listener::tcp(address).with_context(|| format!("listening on {address}"))?;
        let address = listener.local_addr().unwrap_or(address);
        (listener, format!("nbd://{address}"))
    } else {
        let path = PathBuf::from(listen);
        clear(&path)?;
        let listener = Listener::local(&path).with_context(|| format!("listening on {listen}"))?;
        (listener, format!("nbd+unix:///?socket={listen}"))
    };
    end_by_signal(Arc::clone(&end.asked), client.waker())?;
    say!("{uri}");
    let served = disk::serve_nbd::run(&mut client, listener, end);
    if listen.parse::<SocketAddr>().is_err() {
        // Whoever takes the name next clears it away as well.
        let _ = std::fs::remove_file(listen);
    }
    Ok(served?)
}

/// The first signal ends it when what is under way is answered, the second one at once.
fn end_by_signal(asked: Arc<AtomicBool>, waker: Waker) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _within = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if asked.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
                waker.wake();
            }
        });
    });
    Ok(())
}

/// Removes a socket that nobody listens on any more, and nothing else.
fn clear(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("{} exists and is no socket", path.display());
    }
    if UnixStream::connect(path).is_ok() {
        bail!("somebody listens on {} already", path.display());
    }
    std::fs::remove_file(path).with_context(|| format!("removing the old {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_without_a_listener_is_cleared_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        clear(&path).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(clear(&path).is_err(), "somebody listens");
        drop(listener);
        clear(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(clear(&path).is_err());
        assert!(path.exists());
    }
}
