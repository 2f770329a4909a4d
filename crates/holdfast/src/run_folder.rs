//! Where a host and the programs on its machine find each other.

use std::{env, path::PathBuf};

use clap::Args;

const HELP: &str = "The folder of the host's sockets [default: $HOLDFAST_RUN, else /run/holdfast]";
const DEFAULT: &str = "/run/holdfast";

#[derive(Clone, Debug, Args)]
pub(crate) struct RunFolder {
    #[arg(long, value_name = "FOLDER", help = HELP)]
    run: Option<PathBuf>,
}

impl RunFolder {
    pub(crate) fn folder(&self) -> PathBuf {
        let named = || env::var_os("HOLDFAST_RUN").map(PathBuf::from);
        self.run.clone().or_else(named).unwrap_or_else(|| DEFAULT.into())
    }
}
