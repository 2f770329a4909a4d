//! `holdfast store`: what people do with a store file.

use std::{
    io::{BufWriter, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use store::embedded::{Embedded, check, dump, restore};

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read and verify every record; changes nothing
    Check {
        /// The store's folder, its file, or a backup
        store: PathBuf,
    },
    /// Print every record, one a line; of a damaged file all that stands before the damage
    Dump {
        /// The store's folder, its file, or a backup
        store: PathBuf,
    },
    /// Write a verified copy of a store
    Backup {
        /// The store's folder; no controller may have it open
        store: PathBuf,
        /// The file to write
        to: PathBuf,
    },
    /// Make a folder a store out of a backup
    Restore {
        /// The backup
        from: PathBuf,
        /// The folder, which must not hold a store yet
        folder: PathBuf,
    },
}

impl StoreCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Check { store } => {
                let report = check(&store)?;
                println!("{report}");
                Ok(ExitCode::SUCCESS)
            }
            Self::Dump { store } => {
                let mut out = BufWriter::new(std::io::stdout().lock());
                for line in dump(&store)? {
                    writeln!(out, "{}", line?)?;
                }
                out.flush()?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Backup { store, to } => {
                if !store.is_dir() {
                    bail!("{} is no folder: name the store's folder", store.display());
                }
                if to.exists() {
                    bail!("{} exists already: name a new file", to.display());
                }
                check(&store)?;
                let open = Embedded::open(&store)?;
                open.backup(&to).with_context(|| format!("backing up to {}", to.display()))?;
                println!("{}", check(&to)?);
                Ok(ExitCode::SUCCESS)
            }
            Self::Restore { from, folder } => {
                println!("{}", restore(&from, &folder)?);
                println!(
                    "a controller on it is read-only until `recover` if the pools have seen more"
                );
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
