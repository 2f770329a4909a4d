//! Every route there is: the router and the OpenAPI document are made from this one table.

use crate::read::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Put,
    Post,
    Delete,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub verb: Verb,
    pub path: &'static str,
    pub operation: Operation,
    pub summary: &'static str,
    /// Parameters behind the question mark.
    pub query: &'static [&'static str],
    /// The schema of the body, by its name.
    pub body: Option<&'static str>,
    /// The schema of the answer, by its name; text if empty.
    pub answer: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    List(Kind),
    One(Kind),
    PutVolume,
    DeleteVolume,
    Publish,
    Unpublish,
    Share,
    Unshare,
    Promote,
    Drill,
    DrillReport,
    PutPool,
    DeletePool,
    ForgetPool,
    LabelNode,
    Cordon,
    Uncordon,
    Drain,
    Undrain,
    ForgetNode,
    PutSnapshot,
    DeleteSnapshot,
    Recover,
    Events,
    Cluster,
    Why,
    Records,
    OpenApi,
    Metrics,
    Healthz,
    Readyz,
}

impl Verb {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Post => "post",
            Self::Delete => "delete",
        }
    }
}

impl Operation {
    /// Whether it changes something, and so is the leader's to do.
    pub(crate) const fn is_change(self) -> bool {
        !matches!(
            self,
            Self::List(_)
                | Self::One(_)
                | Self::Events
                | Self::Cluster
                | Self::Why
                | Self::Records
                | Self::OpenApi
                | Self::Metrics
                | Self::Healthz
                | Self::Readyz
        )
    }

    /// Whether it makes what it names.
    pub(crate) const fn is_making(self) -> bool {
        matches!(self, Self::PutVolume | Self::PutPool | Self::PutSnapshot)
    }

    /// The name of the operation in the document.
    pub(crate) fn id(self) -> String {
        match self {
            Self::List(kind) => format!("list{kind:?}"),
            Self::One(kind) => format!("get{}", singular(kind)),
            other => {
                let name = format!("{other:?}");
                name[..1].to_ascii_lowercase() + &name[1..]
            }
        }
    }
}

fn singular(kind: Kind) -> String {
    let words = kind.noun().split(' ');
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect()
}

const NONE: &[&str] = &[];
const LIST: &[&str] = &["limit", "after", "labels"];
const ONE: &[&str] = &["wait", "timeout"];
const CHANGE: &[&str] = &["dry-run", "if-plan", "wait", "timeout"];

const fn get(path: &'static str, operation: Operation, answer: &'static str) -> Route {
    let (summary, query) = match operation {
        Operation::List(_) => ("A page of them, by name", LIST),
        Operation::One(_) => ("One of them, by its id or name", ONE),
        _ => ("", NONE),
    };
    Route { verb: Verb::Get, path, operation, summary, query, body: None, answer }
}

const fn change(
    verb: Verb,
    path: &'static str,
    operation: Operation,
    summary: &'static str,
    body: Option<&'static str>,
    answer: &'static str,
) -> Route {
    Route { verb, path, operation, summary, query: CHANGE, body, answer }
}

#[rustfmt::skip]
pub(crate) const ROUTES: &[Route] = &[
    get("/v1/nodes", Operation::List(Kind::Nodes), "PageOfNodeShown"),
    get("/v1/nodes/{name}", Operation::One(Kind::Nodes), "NodeShown"),
    get("/v1/pools", Operation::List(Kind::Pools), "PageOfPoolShown"),
    get("/v1/pools/{name}", Operation::One(Kind::Pools), "PoolShown"),
    get("/v1/volumes", Operation::List(Kind::Volumes), "PageOfVolumeShown"),
    get("/v1/volumes/{name}", Operation::One(Kind::Volumes), "VolumeShown"),
    get("/v1/targets", Operation::List(Kind::Targets), "PageOfTargetShown"),
    get("/v1/targets/{name}", Operation::One(Kind::Targets), "TargetShown"),
    get("/v1/replicas", Operation::List(Kind::Replicas), "PageOfReplicaShown"),
    get("/v1/replicas/{name}", Operation::One(Kind::Replicas), "ReplicaShown"),
    get("/v1/snapshots", Operation::List(Kind::Snapshots), "PageOfSnapshotShown"),
    get("/v1/snapshots/{name}", Operation::One(Kind::Snapshots), "SnapshotShown"),
    get("/v1/hosts", Operation::List(Kind::Hosts), "PageOfHostShown"),
    get("/v1/hosts/{name}", Operation::One(Kind::Hosts), "HostShown"),
    get("/v1/shares", Operation::List(Kind::Shares), "PageOfShareShown"),
    get("/v1/shares/{name}", Operation::One(Kind::Shares), "ShareShown"),
    get("/v1/switchovers", Operation::List(Kind::Switchovers), "PageOfSwitchoverShown"),
    get("/v1/switchovers/{name}", Operation::One(Kind::Switchovers), "SwitchoverShown"),
    get("/v1/block-devices", Operation::List(Kind::BlockDevices), "PageOfBlockDeviceShown"),
    get("/v1/block-devices/{name}", Operation::One(Kind::BlockDevices), "BlockDeviceShown"),

    change(Verb::Put, "/v1/volumes/{name}", Operation::PutVolume,
        "Makes a volume, or changes its size or its count of replicas", Some("VolumePut"),
        "VolumeShown"),
    Route { query: &["dry-run", "if-plan", "wait", "timeout", "with-snapshots", "force"], ..change(
        Verb::Delete, "/v1/volumes/{name}", Operation::DeleteVolume,
        "Deletes a volume and its data; only by force while hosts have it", None,
        "VolumeShown") },
    change(Verb::Put, "/v1/volumes/{name}/publication", Operation::Publish,
        "Gives a volume to hosts", Some("PublicationPut"), "VolumeShown"),
    Route { query: &["dry-run", "if-plan", "wait", "timeout", "force"], ..change(
        Verb::Delete, "/v1/volumes/{name}/publication/{host}", Operation::Unpublish,
        "Takes a volume from a host; by force if the host is gone for good", None,
        "VolumeShown") },
    change(Verb::Put, "/v1/volumes/{name}/share", Operation::Share,
        "Exports a volume over NFS", Some("SharePut"), "VolumeShown"),
    change(Verb::Delete, "/v1/volumes/{name}/share", Operation::Unshare,
        "Ends the export of a volume", None, "VolumeShown"),
    change(Verb::Post, "/v1/volumes/{name}/promote", Operation::Promote,
        "Serves the best remaining copy and accepts data loss", Some("Promote"), "VolumeShown"),
    change(Verb::Post, "/v1/volumes/{name}/drill", Operation::Drill,
        "Ends a volume's target on purpose, to see it served again", Some("DrillStart"),
        "VolumeShown"),
    change(Verb::Post, "/v1/volumes/{name}/drill/report", Operation::DrillReport,
        "Records what a drill showed", Some("DrillReport"), "VolumeShown"),
    change(Verb::Put, "/v1/pools/{name}", Operation::PutPool,
        "Makes a pool on a node's disks", Some("PoolPut"), "PoolShown"),
    change(Verb::Delete, "/v1/pools/{name}", Operation::DeletePool,
        "Deletes a pool that nothing uses", None, "PoolShown"),
    change(Verb::Post, "/v1/pools/{name}/forget", Operation::ForgetPool,
        "Gives up a pool whose hardware will never return", None, "PoolShown"),
    change(Verb::Put, "/v1/nodes/{name}/labels", Operation::LabelNode,
        "Replaces the labels of a node", Some("Labels"), "NodeShown"),
    change(Verb::Put, "/v1/nodes/{name}/cordon", Operation::Cordon,
        "Places nothing new on a node", None, "NodeShown"),
    change(Verb::Delete, "/v1/nodes/{name}/cordon", Operation::Uncordon,
        "Lets a node take new things again", None, "NodeShown"),
    change(Verb::Put, "/v1/nodes/{name}/drain", Operation::Drain,
        "Moves targets and replicas off a node", None, "NodeShown"),
    change(Verb::Delete, "/v1/nodes/{name}/drain", Operation::Undrain,
        "Ends the drain of a node", None, "NodeShown"),
    change(Verb::Post, "/v1/nodes/{name}/forget", Operation::ForgetNode,
        "Gives up a node that will never return; refused while it is alive", None, "NodeShown"),
    change(Verb::Put, "/v1/snapshots/{name}", Operation::PutSnapshot,
        "Takes a snapshot of a volume", Some("SnapshotPut"), "SnapshotShown"),
    change(Verb::Delete, "/v1/snapshots/{name}", Operation::DeleteSnapshot,
        "Deletes a snapshot", None, "SnapshotShown"),
    Route { query: &["dry-run", "if-plan"], ..change(
        Verb::Post, "/v1/recover", Operation::Recover,
        "Starts a new era from what the pools carry", Some("Recover"), "ClusterShown") },

    Route { query: &["limit", "after"],
        summary: "Events, oldest first; a stream if text/event-stream is accepted",
        ..get("/v1/events", Operation::Events, "PageOfEventShown") },
    Route { summary: "The cluster as a whole",
        ..get("/v1/cluster", Operation::Cluster, "ClusterShown") },
    Route { summary: "Why a resource is as it is, and the next step",
        ..get("/v1/why/{kind}/{name}", Operation::Why, "Why") },
    Route { query: &["limit", "after", "at"],
        summary: "The stored records as they lie in the store",
        ..get("/v1/records", Operation::Records, "PageOfRecordShown") },
    Route { summary: "This document", ..get("/openapi.json", Operation::OpenApi, "Object") },
    Route { summary: "Metrics for Prometheus", ..get("/metrics", Operation::Metrics, "") },
    Route { summary: "Whether the process runs", ..get("/healthz", Operation::Healthz, "") },
    Route { summary: "Whether requests are of use here", ..get("/readyz", Operation::Readyz, "") },
];
