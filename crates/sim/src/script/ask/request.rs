//! From the labels of a script to the request that a client sends.

use model::{Access, HostId, Labels, Millis, Policy, PoolSpec, Time, Topology, VolumeSpec};
use plan::Request;

use super::{Ask, Wish};
use crate::{disk_path, names};

impl Ask {
    /// The request, made at `now`. Attempts are named after the line's time, so that they stay the
    /// same while other lines are taken away.
    pub fn request(&self, at: Millis, now: Time) -> Request {
        let attempt = names::attempt(&format!("a{}", at.0));
        match self {
            Self::CreatePool { pool, node } => create_pool(pool, node),
            Self::DeletePool { pool } => Request::DeletePool { pool: names::pool(pool) },
            Self::ForgetPool { pool } => Request::ForgetPool { pool: names::pool(pool) },
            Self::LabelNode { node, labels } => {
                let (node, labels) = (names::node(node), labels.clone());
                Request::LabelNode { node, labels }
            }
            Self::Cordon { node } => cordon(node, true),
            Self::Uncordon { node } => cordon(node, false),
            Self::Drain { node } => drain(node, true),
            Self::Undrain { node } => drain(node, false),
            Self::ForgetNode { node } => Request::ForgetNode { node: names::node(node) },
            Self::CreateVolume(wish) => wish.request(),
            Self::DeleteVolume { volume, with_snapshots } => Request::DeleteVolume {
                volume: names::volume(volume),
                with_snapshots: *with_snapshots,
                // Whoever is refused would ask again so; what follows is the same.
                force: true,
            },
            Self::Resize { volume, size } => {
                Request::ResizeVolume { volume: names::volume(volume), size: *size }
            }
            Self::Scale { volume, replicas } => {
                Request::ScaleVolume { volume: names::volume(volume), replicas: *replicas }
            }
            Self::Publish { volume, hosts: to, within } => Request::PublishVolume {
                volume: names::volume(volume),
                attempt,
                deadline: now + *within,
                hosts: hosts(to),
            },
            Self::Unpublish { volume, host, force } => Request::UnpublishVolume {
                volume: names::volume(volume),
                host: names::host(host),
                force: *force,
            },
            Self::Share { volume, consumers } => {
                Request::ShareVolume { volume: names::volume(volume), consumers: hosts(consumers) }
            }
            Self::Promote { volume } => Request::PromoteVolume {
                volume: names::volume(volume),
                attempt,
                replica: None,
                accept_data_loss: true,
            },
            Self::Snapshot { snapshot, volume, within } => Request::CreateSnapshot {
                id: names::snapshot(snapshot),
                name: snapshot.clone(),
                volume: names::volume(volume),
                attempt,
                deadline: now + *within,
            },
            Self::DeleteSnapshot { snapshot } => {
                Request::DeleteSnapshot { snapshot: names::snapshot(snapshot) }
            }
            Self::Recover { accept } => Request::Recover {
                era: names::era(&format!("era{}", at.0)),
                accept_data_loss: accept.iter().map(|label| names::volume(label)).collect(),
            },
        }
    }

    /// The name under which it is counted: that of its request.
    pub fn kind(&self) -> &'static str {
        self.request(Millis::ZERO, Time(0)).kind()
    }
}

impl Wish {
    fn request(&self) -> Request {
        let spec = VolumeSpec {
            size: self.size,
            replicas: self.replicas,
            thin: self.thin,
            topology: Topology {
                spread: self.spread.iter().cloned().collect(),
                affinity: self.affinity.iter().cloned().collect(),
                ..Topology::default()
            },
            affinity_group: self.group.clone(),
            policy: Policy { rebuild_wait: self.rebuild_wait, ..Policy::default() },
            access: if self.many { Access::Many } else { Access::Exclusive },
            origin: self.from.as_deref().map(names::snapshot),
            ..VolumeSpec::default()
        };
        Request::CreateVolume {
            id: names::volume(&self.volume),
            name: self.name.as_ref().unwrap_or(&self.volume).clone(),
            labels: Labels::new(),
            spec: Box::new(spec),
        }
    }
}

fn create_pool(pool: &str, node: &str) -> Request {
    let spec = PoolSpec {
        extra: std::collections::BTreeMap::new(),
        ..PoolSpec::new(names::node(node), vec![disk_path(pool)])
    };
    Request::CreatePool { id: names::pool(pool), name: pool.into(), labels: Labels::new(), spec }
}

fn cordon(node: &str, cordoned: bool) -> Request {
    Request::CordonNode { node: names::node(node), cordoned }
}

fn drain(node: &str, draining: bool) -> Request {
    Request::DrainNode { node: names::node(node), draining }
}

fn hosts(labels: &[String]) -> std::collections::BTreeSet<HostId> {
    labels.iter().map(|label| names::host(label)).collect()
}
