//! Commands that change something.

use std::{io::Write, process::ExitCode};

use hyper::Method;
use model::{Labels, Time, Topology, VolumeSpec};
use rest::{
    Answer, Client, NodeShown, PoolPut, Promote, PublicationPut, Recover, SharePut, SnapshotPut,
    VolumePut, VolumeShown, encode,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    CliError,
    arguments::{Command, Create, Kind, Manner, Output},
    confirm, get, preview, progress, watch, yaml,
};

/// Whether a person agrees before a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Nothing,
    /// By an argument; what is lost is told all the same.
    Agreed,
    Person,
}

/// One request, and what it is about.
struct Change {
    kind: Kind,
    /// The third part of the path: what it is about.
    name: String,
    method: Method,
    path: String,
    /// Behind the question mark, besides what the manner says.
    query: Vec<String>,
    /// What is waited for.
    until: &'static str,
    if_match: Option<u64>,
    body: Option<Value>,
    /// It makes what it names, and leaves what is there as it is.
    is_create: bool,
    /// What it would do is told first, and agreed to.
    asks: Asks,
    /// Past tense, for people.
    done: &'static str,
}

impl Change {
    fn new(kind: Kind, method: Method, path: String, done: &'static str) -> Self {
        let until = match (&method, kind) {
            (_, Kind::Cluster) => "",
            _ => "available",
        };
        let (query, if_match, body, is_create) = (Vec::new(), None, None, false);
        let asks = Asks::Nothing;
        let name = path.split('/').nth(3).unwrap_or_default().to_owned();
        Self { kind, name, method, path, query, until, if_match, body, is_create, asks, done }
    }

    /// Makes what the path names.
    fn create(kind: Kind, path: String, body: &impl Serialize) -> Result<Self, CliError> {
        let change = Self::new(kind, Method::PUT, path, "created").with(body)?;
        Ok(Self { is_create: true, ..change })
    }

    fn until(mut self, until: &'static str) -> Self {
        self.until = until;
        self
    }

    fn with(mut self, body: &impl Serialize) -> Result<Self, CliError> {
        self.body = Some(serde_json::to_value(body)?);
        Ok(self)
    }
}

pub(crate) async fn run(
    command: Command,
    client: &Client,
    out: &mut impl Write,
) -> Result<ExitCode, CliError> {
    let (change, manner) = match command {
        Command::Create(create) => created(create)?,
        Command::Scale { volume, replicas, manner } => {
            let spec = |spec: &mut VolumeSpec| spec.replicas = replicas;
            (respec(client, &volume, "scaled", spec).await?.until("healthy"), manner)
        }
        Command::Resize { volume, size, manner } => {
            let spec = |spec: &mut VolumeSpec| spec.size = size;
            (respec(client, &volume, "resized", spec).await?, manner)
        }
        Command::Label { node, labels, manner } => {
            (relabel(client, &node, &labels).await?.until(""), manner)
        }
        other => simple(other)?,
    };
    send(client, change, &manner, out).await
}

async fn send(
    client: &Client,
    mut change: Change,
    manner: &Manner,
    out: &mut impl Write,
) -> Result<ExitCode, CliError> {
    if change.asks != Asks::Nothing && !manner.dry_run {
        agree(client, &change, out).await?;
    }
    if manner.dry_run {
        change.query.push("dry-run=true".into());
    } else if !manner.no_wait && !change.until.is_empty() {
        change.query.push(format!("wait={}", change.until));
        change.query.push(format!("timeout={}", encode(&manner.timeout)));
    }
    change.query.extend(manner.if_plan.as_ref().map(|plan| format!("if-plan={}", encode(plan))));
    let mut path = change.path;
    if !change.query.is_empty() {
        path = format!("{path}?{}", change.query.join("&"));
    }
    let (kind, done) = (change.kind, change.done);
    // What a person saw counts for more than what was read just now.
    let if_match = manner.if_revision.or(change.if_match);
    let sending = async {
        match &change.body {
            // A create of what somebody saw is a contradiction, which the server explains.
            Some(body) if change.is_create && if_match.is_none() => {
                client.create(&path, body).await
            }
            body => client.change(change.method, &path, if_match, body.as_ref()).await,
        }
    };
    let answer: Answer<Value> = progress::beside(client, kind, &change.name, sending).await?;
    match answer {
        Answer::Preview(preview) => match manner.output {
            Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&preview)?)?,
            Output::Yaml => yaml::write(out, &serde_json::to_value(&preview)?)?,
            _ => preview::print(&preview, out)?,
        },
        Answer::Gone => writeln!(out, "{} is gone", kind.singular())?,
        Answer::Done(shown) if manner.output == Output::Table => {
            writeln!(out, "{}/{} {done}", kind.singular(), get::name(&shown))?;
        }
        Answer::Unchanged(shown) if manner.output == Output::Table => {
            let taken = taken_at(kind, &shown);
            writeln!(out, "{}/{} unchanged{taken}", kind.singular(), get::name(&shown))?;
        }
        Answer::Done(shown) | Answer::Unchanged(shown) => {
            get::print(client, kind, manner.output, &[shown], true, out).await?;
        }
        Answer::Accepted(shown) => {
            let name = get::name(&shown);
            writeln!(out, "{}/{name} accepted, not yet {done}", kind.singular())?;
            let words = shown.pointer("/status/words").and_then(Value::as_array);
            for word in words.into_iter().flatten().filter_map(Value::as_str) {
                writeln!(out, "  {word}")?;
            }
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Of a snapshot that is there: of which moment it is.
fn taken_at(kind: Kind, shown: &Value) -> String {
    let created = shown.pointer("/meta/created").and_then(Value::as_u64);
    match created.filter(|_| kind == Kind::Snapshots) {
        Some(at) => format!(", taken at {}", watch::date(Time(at))),
        None => String::new(),
    }
}

/// Shows what a change would do, and goes on only if somebody agrees.
async fn agree(client: &Client, change: &Change, out: &mut impl Write) -> Result<(), CliError> {
    let query: Vec<String> = change.query.iter().cloned().chain(["dry-run=true".into()]).collect();
    let path = format!("{}?{}", change.path, query.join("&"));
    let asked = client.change::<Value, Value>(change.method.clone(), &path, None, None).await?;
    if let Answer::Preview(preview) = &asked {
        preview::print_impact(preview, out)?;
    }
    let what = format!("{} {}", change.kind.singular(), change.name);
    match change.asks {
        Asks::Nothing | Asks::Agreed => Ok(()),
        Asks::Person => confirm::confirm(&format!("Delete {what} all the same?")),
    }
}

fn created(create: Create) -> Result<(Change, Manner), CliError> {
    Ok(match create {
        Create::Volume {
            name,
            size,
            replicas,
            thin,
            spread,
            affinity,
            group,
            from,
            labels,
            manner,
        } => {
            let spread = spread.into_iter().collect();
            let affinity = affinity.into_iter().collect();
            let spec = VolumeSpec {
                size,
                replicas,
                thin,
                topology: Topology { spread, affinity, ..Topology::default() },
                affinity_group: group,
                origin: from,
                ..VolumeSpec::default()
            };
            let put = VolumePut { id: None, labels: labels.into_iter().collect(), spec };
            let path = format!("/v1/volumes/{}", encode(&name));
            (Change::create(Kind::Volumes, path, &put)?, manner)
        }
        Create::Pool { name, node, disks, labels, id, manner } => {
            let put = PoolPut { id, labels: labels.into_iter().collect(), node, disks };
            let path = format!("/v1/pools/{}", encode(&name));
            (Change::create(Kind::Pools, path, &put)?, manner)
        }
        Create::Snapshot { name, volume, id, manner } => {
            let put = SnapshotPut { id, volume, attempt: None, within: None };
            let path = format!("/v1/snapshots/{}", encode(&name));
            (Change::create(Kind::Snapshots, path, &put)?, manner)
        }
    })
}

/// Reads the spec, changes it, and writes it back if nobody else has meanwhile.
async fn respec(
    client: &Client,
    name: &str,
    done: &'static str,
    edit: impl FnOnce(&mut VolumeSpec),
) -> Result<Change, CliError> {
    let path = format!("/v1/volumes/{}", encode(name));
    let shown: VolumeShown = client.get(&path).await?;
    let mut spec = shown.volume.spec;
    edit(&mut spec);
    let put = VolumePut { id: Some(shown.volume.meta.id), labels: Labels::new(), spec };
    let mut change = Change::new(Kind::Volumes, Method::PUT, path, done).with(&put)?;
    change.if_match = Some(shown.volume.meta.spec_revision);
    Ok(change)
}

async fn relabel(client: &Client, name: &str, changes: &[String]) -> Result<Change, CliError> {
    let path = format!("/v1/nodes/{}", encode(name));
    let shown: NodeShown = client.get(&path).await?;
    let mut labels = shown.node.meta.labels;
    for change in changes {
        match (change.split_once('='), change.strip_suffix('-')) {
            (Some((key, value)), _) => labels.insert(key.to_owned(), value.to_owned()),
            (None, Some(key)) => labels.remove(key),
            (None, None) => {
                let words = format!("{change:?} is neither key=value nor key-");
                return Err(CliError::Usage(words));
            }
        };
    }
    let mut change = Change::new(Kind::Nodes, Method::PUT, format!("{path}/labels"), "labelled");
    change.if_match = Some(shown.node.meta.spec_revision);
    change.with(&labels)
}

fn delete(
    kind: Kind,
    name: &str,
    with_snapshots: bool,
    by_force: Option<Asks>,
) -> Result<Change, CliError> {
    if !matches!(kind, Kind::Volumes | Kind::Pools | Kind::Snapshots) {
        let words = "volumes, pools and snapshots are deleted; nodes are forgotten";
        return Err(CliError::Usage(words.into()));
    }
    if by_force.is_some() && kind != Kind::Volumes {
        let words = "only a volume is deleted by force: delete first what uses the other";
        return Err(CliError::Usage(words.into()));
    }
    let path = format!("/v1/{}/{}", kind.plural(), encode(name));
    let mut change = Change::new(kind, Method::DELETE, path, "deleted").until("gone");
    if with_snapshots {
        change.query.push("with-snapshots=true".into());
    }
    if let Some(asks) = by_force {
        change.query.push("force=true".into());
        change.asks = asks;
    }
    Ok(change)
}

/// Changes that need nothing but their own words.
fn simple(command: Command) -> Result<(Change, Manner), CliError> {
    let volume = |name: &str, part: &str| format!("/v1/volumes/{}{part}", encode(name));
    let node = |name: &str, part: &str| format!("/v1/nodes/{}{part}", encode(name));
    let (volumes, nodes) = (Kind::Volumes, Kind::Nodes);
    Ok(match command {
        Command::Delete { kind, name, with_snapshots, force, yes, manner } => {
            let by_force = force.then_some(if yes { Asks::Agreed } else { Asks::Person });
            (delete(kind, &name, with_snapshots, by_force)?, manner)
        }
        Command::Publish { volume: name, hosts, manner } => {
            let put = PublicationPut { hosts, ..PublicationPut::default() };
            let path = volume(&name, "/publication");
            (Change::new(volumes, Method::PUT, path, "published").with(&put)?, manner)
        }
        Command::Unpublish { volume: name, host, force, manner } => {
            let path = volume(&name, &format!("/publication/{}", encode(&host)));
            let mut change = Change::new(volumes, Method::DELETE, path, "unpublished").until("");
            if force {
                change.query.push("force=true".into());
            }
            (change, manner)
        }
        Command::Share { volume: name, hosts, manner } => {
            let put = SharePut { consumers: hosts };
            let path = volume(&name, "/share");
            (Change::new(volumes, Method::PUT, path, "shared").until("").with(&put)?, manner)
        }
        Command::Promote { volume: name, accept_data_loss, replica, manner } => {
            let body = Promote { accept_data_loss, replica, attempt: None };
            let path = volume(&name, "/promote");
            let change = Change::new(volumes, Method::POST, path, "promoted").until("");
            (change.with(&body)?, manner)
        }
        Command::Cordon { node: name, manner } => {
            let path = node(&name, "/cordon");
            (Change::new(nodes, Method::PUT, path, "cordoned").until(""), manner)
        }
        Command::Uncordon { node: name, manner } => {
            let path = node(&name, "/cordon");
            (Change::new(nodes, Method::DELETE, path, "uncordoned").until(""), manner)
        }
        Command::Drain { node: name, cancel: true, manner } => {
            let path = node(&name, "/drain");
            (Change::new(nodes, Method::DELETE, path, "no longer drained").until(""), manner)
        }
        Command::Drain { node: name, cancel: false, manner } => {
            let path = node(&name, "/drain");
            (Change::new(nodes, Method::PUT, path, "drained").until("drained"), manner)
        }
        Command::Forget { kind, name, manner } if matches!(kind, Kind::Nodes | Kind::Pools) => {
            let path = format!("/v1/{}/{}/forget", kind.plural(), encode(&name));
            (Change::new(kind, Method::POST, path, "forgotten").until(""), manner)
        }
        Command::Recover { accept_data_loss, manner } => {
            let body = Recover { era: None, accept_data_loss };
            let path = "/v1/recover".to_owned();
            (Change::new(Kind::Cluster, Method::POST, path, "recovered").with(&body)?, manner)
        }
        _ => return Err(CliError::Usage("only nodes and pools are forgotten".into())),
    })
}
