//! The state of a small world: machines, disks, what is on its way, and what may still happen.

use std::collections::BTreeSet;

use mirror::{Flaw, Geometry, Replica, Seat, StoreAnswer, StoreRequest, Target, Throttle, Times};
use model::{
    AttemptId, Bytes, ChildItem, Epoch, FlushMark, HostId, InstanceId, Membership, Millis, NodeId,
    ReplicaId, Revision, SnapshotId, SnapshotItem, TargetItem, Time, VolumeId,
};
use pool::Boot;

use super::{
    disk::{Disk, Version},
    host::Host,
    shared::Shared,
    wire::Wire,
};

/// How large a world is, and how much may happen in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "each says of one thing whether it happens")]
pub struct Shape {
    pub sites: usize,
    pub blocks: usize,
    pub writes: u8,
    pub reads: u8,
    pub flushes: u8,
    /// Times the control plane starts another target.
    pub switchovers: u8,
    pub target_crashes: u8,
    pub power_losses: u8,
    pub restarts: u8,
    pub cuts: u8,
    pub host_losses: u8,
    pub unknown_outcomes: u8,
    pub ticks: u8,
    /// Disks that begin to fail.
    pub ailments: u8,
    /// Disks that are set back to an image of themselves, which is taken first.
    pub set_backs: u8,
    /// Writes take their time on the disks of replicas.
    pub slow_disks: bool,
    /// A lost connection may come back before the child is excluded.
    pub grace: bool,
    /// The host also reads and writes through an old target.
    pub both_paths: bool,
    /// The target may be asked to stop cleanly.
    pub stops: u8,
    /// Times somebody wants a snapshot.
    pub snapshots: u8,
    /// The first target serves already: its start is explored elsewhere.
    pub is_started: bool,
}

#[derive(Clone, Debug, Hash)]
pub struct World {
    pub(super) left: Shared<Shape>,
    pub(super) flaw: Option<Flaw>,
    pub(super) now: u64,
    pub(super) targets: Vec<Shared<TargetSite>>,
    pub(super) sites: Vec<Shared<Site>>,
    pub(super) wires: Vec<Shared<Wire>>,
    pub(super) record: Shared<Membership>,
    pub(super) host: Shared<Host>,
    /// For each snapshot that was asked for, what was acknowledged before.
    pub(super) wanted: Vec<Vec<Version>>,
    /// Power was lost somewhere: only then may unflushed writes be gone.
    pub(super) lost_power: bool,
    /// Only an older image was left to serve from, and nothing that was left could tell.
    pub(super) is_blind: bool,
    pub(super) broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TargetSite {
    /// Nothing once its process died.
    pub(super) machine: Option<Target<Version>>,
    pub(super) host: Option<u64>,
    pub(super) sessions: u64,
    pub(super) store: Store,
    /// A commit whose outcome nobody knew, and that may still arrive.
    pub(super) late: Option<Box<Membership>>,
    pub(super) item: TargetItem,
}

/// The one question to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Store {
    Idle,
    Asked(StoreRequest),
    Answer(Box<StoreAnswer>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Site {
    pub(super) disk: Disk,
    pub(super) machine: Replica<Version>,
    /// Writes that the disk is doing, of a slow one: number, session, block and value.
    pub(super) doing: Vec<(u64, Option<u64>, pool::Request<Version>)>,
    pub(super) boots: u8,
    pub(super) imports: u8,
    /// The highest epoch that a fence was answered for.
    pub(super) fenced: u64,
    /// Taken at some time, and put back at another.
    pub(super) image: Option<Box<Disk>>,
    /// It is older than what it once had, and the record still calls it healthy: what it had
    /// flushed then.
    pub(super) set_back: Option<FlushMark>,
}

pub(super) const HOST: HostId = HostId::from_u128(1);
pub(super) const VOLUME: VolumeId = VolumeId::from_u128(9);
pub(super) const GEOMETRY: Geometry = Geometry { region: 1, segment: 1 };
/// One tick of a world's clock.
pub(super) const TICK: u64 = 1_000;

pub(super) fn replica_id(site: usize) -> ReplicaId {
    ReplicaId::from_u128(number(site) + 1)
}

pub(super) fn site_of(id: ReplicaId) -> usize {
    usize::try_from(id.0.as_u128()).unwrap_or(1) - 1
}

pub(super) fn snapshot(number: u128) -> SnapshotItem {
    let (snapshot, attempt) = (SnapshotId::from_u128(number), AttemptId::from_u128(number));
    SnapshotItem { snapshot, name: String::new(), attempt }
}

fn number(site: usize) -> u128 {
    u128::try_from(site).unwrap_or(0)
}

impl World {
    pub fn new(shape: &Shape, flaw: Option<Flaw>) -> Self {
        let ids = (0..shape.sites).map(replica_id);
        let mut record = Membership::founded(VOLUME, ids);
        record.revision = Revision(1);
        let mut world = Self {
            left: Shared::new(shape.clone()),
            flaw,
            now: 0,
            targets: Vec::new(),
            sites: Vec::new(),
            wires: Vec::new(),
            record: Shared::new(record),
            host: Shared::new(Host::new(shape.blocks)),
            wanted: Vec::new(),
            lost_power: false,
            is_blind: false,
            broken: None,
        };
        for site in 0..shape.sites {
            let disk = Disk::new(shape.blocks);
            let machine = world.import(site, &disk, 1, 1);
            world.sites.push(Shared::new(Site {
                disk,
                machine,
                doing: Vec::new(),
                boots: 1,
                imports: 1,
                fenced: 0,
                image: None,
                set_back: None,
            }));
        }
        world.start_target();
        if shape.is_started {
            world.settle();
        }
        world
    }

    /// What goes on by itself, in one order, until nothing does.
    fn settle(&mut self) {
        loop {
            let mut actions = Vec::new();
            self.progress(&mut actions);
            let Some(action) = actions.first() else { return };
            self.apply(*action);
        }
    }

    pub(super) fn import(
        &self,
        site: usize,
        disk: &Disk,
        boots: u8,
        imports: u8,
    ) -> Replica<Version> {
        let instance = InstanceId::from_u128(number(site) * 100 + u128::from(imports));
        let boot = Boot(u128::from(boots));
        let header = disk.header.clone();
        let images = disk.images.iter().map(|(frozen, _)| frozen.clone()).collect();
        let machine = Replica::import(replica_id(site), instance, boot, GEOMETRY, header, images);
        match self.flaw {
            Some(flaw) => machine.flawed(flaw),
            None => machine,
        }
    }

    /// The control plane raises the epoch, in one transaction, and starts a target of it.
    pub(super) fn start_target(&mut self) {
        self.record.epoch = self.record.epoch.next();
        self.record.owner = None;
        self.record.revision = self.record.revision.next();
        let epoch = self.record.epoch;
        let index = self.targets.len();
        let item = self.item(epoch, index);
        let seat = self.seat(epoch, index);
        let mut out = Vec::new();
        let machine = Target::start(seat, item.clone(), self.time(), &mut out);
        let machine = match self.flaw {
            Some(flaw) => machine.flawed(flaw),
            None => machine,
        };
        let machine = Some(machine);
        let store = Store::Idle;
        let target = TargetSite { machine, host: None, sessions: 0, store, late: None, item };
        self.targets.push(Shared::new(target));
        self.target_put(index, out);
    }

    fn seat(&self, epoch: Epoch, index: usize) -> Seat {
        let never = Millis(1 << 40);
        let grace = if self.left.grace { Millis(TICK) } else { Millis(0) };
        Seat {
            volume: VOLUME,
            instance: InstanceId::from_u128(u128::from(epoch.0)),
            node: NodeId::from_u128(number(index % self.left.sites) + 1),
            times: Times {
                lease: Millis(TICK),
                lease_over: Millis(TICK),
                child: never,
                grace,
                retry: Millis(0),
                full: Millis(TICK),
                // Whoever answers first is claimed with, or all: both orders happen.
                fence: Millis(0),
                hold: never,
                idle: Millis(0),
            },
            geometry: GEOMETRY,
            throttle: Throttle { rate: 0, window: 1 },
        }
    }

    fn item(&self, epoch: Epoch, _index: usize) -> TargetItem {
        let children = (0..self.left.sites).map(|site| ChildItem {
            replica: replica_id(site),
            node: NodeId::from_u128(number(site) + 1),
            rebuild: true,
            retire: false,
        });
        let blocks = u64::try_from(self.left.blocks).unwrap_or(1);
        TargetItem {
            epoch,
            instance: InstanceId::from_u128(u128::from(epoch.0)),
            serve: true,
            size: Bytes(blocks * 4096),
            children: children.collect(),
            hosts: BTreeSet::from([HOST]),
            snapshots: (1..).zip(&self.wanted).map(|(number, _)| snapshot(number)).collect(),
        }
    }

    pub(super) const fn time(&self) -> Time {
        Time(self.now * TICK)
    }

    pub(super) fn break_promise(&mut self, words: impl Into<String>) {
        if self.is_blind {
            return;
        }
        self.broken.get_or_insert(words.into());
    }

    /// The epoch of the target that has this session at a replica.
    pub(super) fn epoch_of(session: u64) -> u64 {
        session / 100 + 1
    }

    pub(super) fn is_serving(&self, target: usize) -> bool {
        let machine = self.targets[target].machine.as_ref();
        machine.is_some_and(Target::is_serving)
    }

    pub(super) fn wire(&mut self, target: usize, site: usize, session: u64) -> Option<&mut Wire> {
        self.wires
            .iter_mut()
            .find(|wire| wire.target == target && wire.site == site && wire.session == session)
            .map(|wire| &mut **wire)
    }

    /// The target and the replica of a wire.
    pub(super) fn ends(&self, wire: usize) -> (usize, usize) {
        let wire = &self.wires[wire];
        (wire.target, wire.site)
    }

    /// Wires that are over are gone, and the rest stand in order: equal worlds are equal.
    pub(super) fn tidy(&mut self) {
        self.wires.retain(|wire| !wire.is_over());
        self.wires.sort_by_key(|wire| (wire.target, wire.site, wire.session));
    }
}

/// Replicas are letters.
pub(super) fn name(site: usize) -> char {
    char::from(b'A' + u8::try_from(site).unwrap_or(25))
}
