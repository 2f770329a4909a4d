//! What can be said on the command line.

use clap::{Args, Subcommand, ValueEnum};
use model::Bytes;

use crate::Certificates;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// The machines that hold data
    #[value(alias = "node", alias = "no")]
    Nodes,
    /// The disks that data is kept on, by node
    #[value(alias = "pool", alias = "po")]
    Pools,
    /// What hosts use
    #[value(alias = "volume", alias = "vol", alias = "v")]
    Volumes,
    /// Who serves each volume
    #[value(alias = "target")]
    Targets,
    /// The copies of each volume
    #[value(alias = "replica", alias = "rep")]
    Replicas,
    /// Volumes as they were
    #[value(alias = "snapshot", alias = "snap")]
    Snapshots,
    /// The machines that use volumes
    #[value(alias = "host")]
    Hosts,
    /// Volumes exported over NFS
    #[value(alias = "share")]
    Shares,
    /// Volumes on their way to another target
    #[value(alias = "switchover", alias = "so")]
    Switchovers,
    /// The disks of the nodes
    #[value(alias = "block-device", alias = "devices", alias = "bd")]
    BlockDevices,
    /// The cluster as a whole
    Cluster,
}

impl Kind {
    pub(crate) const fn plural(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Pools => "pools",
            Self::Volumes => "volumes",
            Self::Targets => "targets",
            Self::Replicas => "replicas",
            Self::Snapshots => "snapshots",
            Self::Hosts => "hosts",
            Self::Shares => "shares",
            Self::Switchovers => "switchovers",
            Self::BlockDevices => "block-devices",
            Self::Cluster => "cluster",
        }
    }

    pub(crate) fn singular(self) -> &'static str {
        self.plural().trim_end_matches('s')
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

const SERVER_HELP: &str =
    "The controller's REST address [default: $HOLDFAST_SERVER, else port 7421 of 127.0.0.1]";

/// Which controller is asked.
#[derive(Clone, Debug, Default, Args)]
pub struct Connection {
    #[arg(long, value_name = "URL", help = SERVER_HELP)]
    pub server: Option<String>,
    #[command(flatten)]
    pub certificates: Certificates,
}

#[derive(Clone, Debug, Args)]
pub struct Get {
    /// What to list
    pub kind: Kind,
    /// Only this one, by its id or name
    pub name: Option<String>,
    /// Only those with these labels: key=value,key=value
    #[arg(short = 'l', long)]
    pub labels: Option<String>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    /// Print what changes, as it changes
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// How a change is made.
#[derive(Clone, Debug, Args)]
pub struct Manner {
    /// Only tell what would be done, and what it would cost
    #[arg(long)]
    pub dry_run: bool,
    /// Refuse if the plan is not the one that a dry run showed
    #[arg(long, value_name = "PLAN")]
    pub if_plan: Option<String>,
    /// Refuse if its spec was changed since this revision (`spec_revision` in `get -o json`)
    #[arg(long, value_name = "REVISION")]
    pub if_revision: Option<u64>,
    /// Do not wait until it is done
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, as in 500ms, 30s or 10m; the change goes on after that
    #[arg(long, default_value = "60s")]
    pub timeout: String,
    /// How to print what came of it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List resources, or one of them
    Get(Get),
    /// Show all of one resource, with its words and its last events
    Describe {
        kind: Kind,
        /// Its name or id; any word for the cluster
        #[arg(default_value = "-", hide_default_value = true)]
        name: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Make a volume, a pool or a snapshot; what exists is never changed by it
    #[command(subcommand)]
    Create(Create),
    /// Delete a volume, a pool or a snapshot
    Delete {
        /// volume, pool or snapshot
        kind: Kind,
        /// Its name or id
        name: String,
        /// With a volume's snapshots
        #[arg(long)]
        with_snapshots: bool,
        /// A volume that hosts still have: tells what is lost, and asks
        #[arg(long)]
        force: bool,
        /// Do not ask; needed for --force where nobody can be asked
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        manner: Manner,
    },
    /// Change the count of a volume's replicas
    Scale {
        /// Its name or id
        volume: String,
        /// How many copies there shall be, from 1 to 5
        #[arg(long)]
        replicas: u8,
        #[command(flatten)]
        manner: Manner,
    },
    /// Make a volume larger
    Resize {
        /// Its name or id
        volume: String,
        /// The new size, as in 20GiB; volumes do not shrink
        #[arg(long, value_parser = size)]
        size: Bytes,
        #[command(flatten)]
        manner: Manner,
    },
    /// Give a volume to hosts
    Publish {
        /// Its name or id
        volume: String,
        /// Who shall have it; several times for several, if the volume allows that
        #[arg(long = "host", required = true)]
        hosts: Vec<String>,
        #[command(flatten)]
        manner: Manner,
    },
    /// Take a volume from a host
    Unpublish {
        /// Its name or id
        volume: String,
        /// Who shall have it no longer
        #[arg(long)]
        host: String,
        /// The host is gone for good: do not wait for its word, it is fenced
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        manner: Manner,
    },
    /// Export a volume over NFS to hosts; to none, to end it
    Share {
        /// Its name or id
        volume: String,
        /// Who mounts it; several times for several
        #[arg(long = "host")]
        hosts: Vec<String>,
        #[command(flatten)]
        manner: Manner,
    },
    /// Serve the best remaining copy of a volume whose healthy copies are lost for good
    Promote {
        /// Its name or id
        volume: String,
        /// Writes that only the lost copies had are gone
        #[arg(long)]
        accept_data_loss: bool,
        /// This copy instead of the best one: `holdfast get replicas -o wide` lists them
        #[arg(long, value_name = "REPLICA-ID")]
        replica: Option<model::ReplicaId>,
        #[command(flatten)]
        manner: Manner,
    },
    /// Place nothing new on a node
    Cordon {
        /// Its name or id
        node: String,
        #[command(flatten)]
        manner: Manner,
    },
    /// Let a node take new things again
    Uncordon {
        /// Its name or id
        node: String,
        #[command(flatten)]
        manner: Manner,
    },
    /// Move targets and replicas off a node
    Drain {
        /// Its name or id
        node: String,
        /// End the drain
        #[arg(long)]
        cancel: bool,
        #[command(flatten)]
        manner: Manner,
    },
    /// Set labels of a node: key=value, or key- to take one away
    Label {
        /// Its name or id
        node: String,
        /// key=value to set one, key- to take one away
        #[arg(required = true)]
        labels: Vec<String>,
        #[command(flatten)]
        manner: Manner,
    },
    /// Give up a node or a pool that will never return; refused for a node that is alive
    Forget {
        /// node or pool
        kind: Kind,
        /// Its name or id
        name: String,
        #[command(flatten)]
        manner: Manner,
    },
    /// What happened
    Events {
        /// Go on as it happens
        #[arg(short, long)]
        follow: bool,
        /// Only those after this number
        #[arg(long)]
        after: Option<u64>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Why a resource is as it is, and the next step
    Why {
        /// volume, node, pool, snapshot, host or cluster
        kind: Kind,
        /// Its name or id; any word for the cluster
        #[arg(default_value = "-", hide_default_value = true)]
        name: String,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
        #[command(flatten)]
        connection: Connection,
    },
    /// Start a new era from what the pools carry, when the store is lost or too old
    Recover {
        /// Bring this volume back although its newest copies are not all here
        #[arg(long = "accept-data-loss", value_name = "VOLUME-ID")]
        accept_data_loss: Vec<model::VolumeId>,
        #[command(flatten)]
        manner: Manner,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub enum Create {
    /// Make a volume; `publish` it, or `attach` it on a host, to use it
    Volume {
        /// Lower-case letters, digits, '-' and '.'
        name: String,
        /// As in 512MiB or 20GiB
        #[arg(long, value_parser = size)]
        size: Bytes,
        /// How many copies there shall be, each on another node, from 1 to 5
        #[arg(long, default_value_t = 3)]
        replicas: u8,
        /// Take space when it is written
        #[arg(long)]
        thin: bool,
        /// No two replicas share a value of this label
        #[arg(long, value_name = "LABEL")]
        spread: Vec<String>,
        /// Only where this label has this value
        #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
        affinity: Vec<(String, String)>,
        /// Keep its replicas apart from those of others in this group
        #[arg(long)]
        group: Option<String>,
        /// Start from this snapshot, by its id
        #[arg(long, value_name = "SNAPSHOT-ID")]
        from: Option<model::SnapshotId>,
        /// To find it by; several times for several
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
        #[command(flatten)]
        manner: Manner,
    },
    /// Make a pool on a disk of a node: `holdfast get block-devices` lists them
    Pool {
        /// Lower-case letters, digits, '-' and '.'
        name: String,
        /// The node, by its name or id
        #[arg(long)]
        node: String,
        /// A device or file on that node
        #[arg(long = "disk", required = true)]
        disks: Vec<String>,
        /// To find it by, or to spread volumes over
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// Take this pool, which is on the disk and in no record, with what it holds
        #[arg(long, value_name = "POOL-ID")]
        id: Option<model::PoolId>,
        #[command(flatten)]
        manner: Manner,
    },
    /// Freeze a volume as it is now, the same on every copy
    Snapshot {
        /// Lower-case letters, digits, '-' and '.'
        name: String,
        /// The volume, by its name or id
        #[arg(long)]
        volume: String,
        /// Made by you, so that the same command can be repeated: it takes one snapshot
        #[arg(long, value_name = "SNAPSHOT-ID")]
        id: Option<model::SnapshotId>,
        #[command(flatten)]
        manner: Manner,
    },
}

impl Command {
    /// Which controller is asked.
    pub fn connection(&self) -> &Connection {
        match self {
            Self::Get(get) => &get.connection,
            Self::Describe { connection, .. }
            | Self::Events { connection, .. }
            | Self::Why { connection, .. } => connection,
            Self::Create(
                Create::Volume { manner, .. }
                | Create::Pool { manner, .. }
                | Create::Snapshot { manner, .. },
            )
            | Self::Delete { manner, .. }
            | Self::Scale { manner, .. }
            | Self::Resize { manner, .. }
            | Self::Publish { manner, .. }
            | Self::Unpublish { manner, .. }
            | Self::Share { manner, .. }
            | Self::Promote { manner, .. }
            | Self::Cordon { manner, .. }
            | Self::Uncordon { manner, .. }
            | Self::Drain { manner, .. }
            | Self::Label { manner, .. }
            | Self::Forget { manner, .. }
            | Self::Recover { manner, .. } => &manner.connection,
        }
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: model::Invalid| error.to_string())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it must be key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}
