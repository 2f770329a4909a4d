//! When a process is told to end.

use std::io::Read as _;

use anyhow::Result;
use clap::Args;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Ending {
    /// End when standard input does: for a process that another one runs
    #[arg(long, hide = true)]
    with_parent: bool,
}

impl Ending {
    /// Returns at SIGINT, SIGTERM, or when whoever runs this is gone.
    pub(crate) async fn told(self) -> Result<()> {
        let (mut interrupted, mut terminated) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            () = self.orphaned() => {}
        }
        Ok(())
    }

    async fn orphaned(self) {
        let (gone, heard) = oneshot::channel();
        if self.with_parent {
            // Nobody writes there: a read ends when the other process does, whatever ended that.
            std::thread::spawn(move || {
                let _ = std::io::stdin().read(&mut [0]);
                let _ = gone.send(());
            });
            let _ = heard.await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}
