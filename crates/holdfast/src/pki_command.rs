//! `holdfast pki`: an authority in a folder, and the certificates that it signs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use pki::{Authority, Certificate, Files, Order, Outcome, Peer, Role, limits};
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(crate) enum PkiCommand {
    /// Make an authority in a folder; one that is there is left as it is
    Init {
        /// The folder; its key ca.key signs, and never leaves it
        folder: PathBuf,
        /// How long it is good for
        #[arg(long, default_value_t = limits::AUTHORITY_DAYS)]
        days: u32,
    },
    /// Sign a certificate for a process: a folder with ca.crt, tls.crt and tls.key
    ///
    /// One that is there, says the same and has a third of its time left is kept.
    Issue {
        /// The folder of the authority
        folder: PathBuf,
        /// controller, engine, host, client, or etcd
        role: Role,
        /// The process: for an engine its node's name, for a host its own
        name: String,
        /// Where others dial it, a name or an IP address; may be given several times
        #[arg(long = "address", value_name = "NAME|IP")]
        addresses: Vec<String>,
        /// How long it is good for
        #[arg(long, default_value_t = limits::CERTIFICATE_DAYS)]
        days: u32,
        /// Where it goes [default: ROLE-NAME in the folder of the authority]
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// Make a new one, whatever is there
        #[arg(long)]
        renew: bool,
    },
    /// Print for whom certificates are, and until when; fails if one is not valid now
    Show {
        /// A certificate in PEM, or a folder of some
        path: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
}

impl PkiCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Init { folder, days } => {
                let (authority, outcome) = Authority::init(&folder, days)?;
                tell(&folder, &authority.certificate, outcome);
                Ok(ExitCode::SUCCESS)
            }
            Self::Issue { folder, role, name, addresses, days, out, renew } => {
                let authority = Authority::open(&folder)?;
                let order = Order { peer: Peer::new(role, &name)?, addresses, days, renew };
                let out = out.unwrap_or_else(|| authority.place(&order.peer));
                let (certificate, outcome) = authority.issue(&order, &out)?;
                if certificate.not_after > authority.certificate.not_after {
                    let until = authority.certificate.not_after.date();
                    eprintln!("the authority itself ends before it, on {until}");
                }
                tell(&out, &certificate, outcome);
                Ok(ExitCode::SUCCESS)
            }
            Self::Show { path, json } => show(&path, json),
        }
    }
}

fn tell(folder: &Path, certificate: &Certificate, outcome: Outcome) {
    let word = match outcome {
        Outcome::Made => "made",
        Outcome::Kept => "is there already",
    };
    let until = certificate.not_after.date();
    println!("{} {word}: {}, until {until}", folder.display(), certificate.subject);
}

fn show(path: &Path, as_json: bool) -> Result<ExitCode> {
    let found = find(path)?;
    let mut all = Vec::new();
    for path in &found {
        all.push((path, Certificate::read(path)?));
    }
    if as_json {
        let shown: Vec<_> =
            all.iter().map(|(path, certificate)| shape(path, certificate)).collect();
        println!("{:#}", json!(shown));
    } else {
        println!("{:<28} {:<10} {:>9}  {:<24} FILE", "FOR", "UNTIL", "DAYS LEFT", "ADDRESSES");
        for (path, certificate) in &all {
            let Certificate { subject, addresses, not_after, .. } = certificate;
            let (until, left) = (not_after.date().to_string(), certificate.days_left());
            let (at, path) = (addresses.join(","), path.display());
            println!("{subject:<28} {until:<10} {left:>9}  {at:<24} {path}");
        }
    }
    let is_fine = all.iter().all(|(_, certificate)| certificate.is_valid());
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shape(path: &Path, certificate: &Certificate) -> serde_json::Value {
    json!({
        "file": path,
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "role": certificate.peer.as_ref().map(|peer| peer.role.to_string()),
        "name": certificate.peer.as_ref().map(|peer| peer.name.clone()),
        "addresses": certificate.addresses,
        "not_before": certificate.not_before.unix_timestamp(),
        "not_after": certificate.not_after.unix_timestamp(),
        "days_left": certificate.days_left(),
        "valid": certificate.is_valid(),
    })
}

/// A file itself; of a folder its certificates, and those of the folders in it.
fn find(path: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", path.display());
    if fs::metadata(path).with_context(reading)?.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut folders = Vec::new();
    for entry in fs::read_dir(path).with_context(reading)? {
        folders.push(entry?.path());
    }
    folders.retain(|inside| inside.is_dir());
    folders.sort();
    let own = Files::in_folder(path);
    let inside = folders.iter().map(|folder| Files::in_folder(folder).cert);
    let found: Vec<PathBuf> =
        [own.ca, own.cert].into_iter().chain(inside).filter(|file| file.exists()).collect();
    if found.is_empty() {
        bail!("{} holds no certificates", path.display());
    }
    Ok(found)
}
