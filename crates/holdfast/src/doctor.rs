//! `holdfast doctor`: the promises, checked on the records of a cluster or of a store.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use clap::Args;
use invariants::{PROMISES, Records, check_all};
use model::{Key, Record, Revision, Write};
use ports::Store as _;
use store::{
    embedded::{Embedded, check},
    limits::PAGE_ENTRIES_MAX,
};

use crate::user_command;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// An embedded store's folder that no controller has open; without it, the running cluster
    store: Option<PathBuf>,
    #[command(flatten)]
    connection: cli::Connection,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Some(store) = self.store else {
            return user_command::doctor(&self.connection);
        };
        if self.connection.server.is_some() {
            bail!("a store's folder and --server exclude each other");
        }
        let report = check(&store)?;
        println!("{report}");
        let (records, undecodable) = load(&store)?;
        let broken = check_all(&records);
        for words in &undecodable {
            println!("quarantined  {words}");
        }
        for broken in &broken {
            println!("broken       {broken}");
        }
        let count = broken.len() + undecodable.len();
        println!("{} promises checked, {count} findings", PROMISES.len());
        Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Every record of the store, and the words of those that do not decode.
fn load(folder: &std::path::Path) -> Result<(Records, Vec<String>)> {
    let store = Embedded::open(folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut writes = Vec::new();
    let mut undecodable = Vec::new();
    let mut after: Option<String> = None;
    let mut revision: Option<Revision> = None;
    loop {
        let listing = store.list("", after.as_deref(), PAGE_ENTRIES_MAX, revision);
        let page = runtime.block_on(listing)?;
        revision = Some(page.revision);
        for entry in page.entries {
            let Ok(key) = entry.key.parse::<Key>() else {
                undecodable.push(format!("{}: no key of this version", entry.key));
                continue;
            };
            match Record::decode(&key, &entry.value, entry.modified) {
                Ok(record) => writes.push(Write::put(key, record)),
                Err(error) => undecodable.push(error.to_string()),
            }
        }
        after = page.next;
        if after.is_none() {
            let revision = revision.unwrap_or(Revision::ZERO);
            return Ok((Records::loaded(revision, &writes), undecodable));
        }
    }
}
