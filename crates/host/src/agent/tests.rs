//! The agent with paths that obey at once.

use model::{ConfigHead, Epoch, Era, HostPart, Key, PathHealth, PathItem, PathSeen, Scope};

use super::*;

const VOLUME: VolumeId = VolumeId::from_u128(7);

/// Paths that connect when they are told to, and close when they are told to.
#[derive(Debug, Default)]
struct Fake {
    held: BTreeMap<VolumeId, Held>,
    closing: Arc<std::sync::atomic::AtomicBool>,
}

impl Paths for Fake {
    fn follow(&mut self, volume: VolumeId, path: &PathItem) {
        let seen = PathSeen { node: path.node, epoch: path.epoch, health: PathHealth::Live };
        self.held.insert(volume, Held { paths: vec![seen], device: None });
    }

    fn leave(&mut self, volume: VolumeId) {
        if !self.closing.load(std::sync::atomic::Ordering::SeqCst) {
            self.held.remove(&volume);
        }
    }

    fn look(&mut self) -> BTreeMap<VolumeId, Held> {
        self.held.clone()
    }

    fn heard(&mut self) -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    fn look_every(&self) -> Option<Duration> {
        None
    }
}

fn config(generation: u64, part: Option<HostPart>) -> HostConfig {
    let head = ConfigHead {
        era: Era::from_u128(1),
        term: InstanceId::from_u128(9),
        instance: InstanceId::from_u128(2),
        generation: Revision(generation),
        scope: Scope::Whole,
        former: Vec::new(),
    };
    let parts = part.map(|part| (Key::Volume(VOLUME), Some(part)));
    HostConfig { head, parts: parts.into_iter().collect() }
}

fn at(epoch: u64) -> HostPart {
    let (node, address) = (NodeId::from_u128(3), "127.0.0.1:1".into());
    let path = Some(PathItem { node, address, epoch: Epoch(epoch) });
    HostPart { volume: VOLUME, path, share: None }
}

fn agent(run: &std::path::Path) -> (Agent, Arc<std::sync::atomic::AtomicBool>) {
    let identity = Identity {
        host: HostId::from_u128(1),
        name: "h".into(),
        instance: InstanceId::from_u128(2),
        run: run.into(),
        way: "user",
    };
    let fake = Fake::default();
    let closing = Arc::clone(&fake.closing);
    (Agent::new(identity, Box::new(fake)).0, closing)
}

/// HA-1: the word that it has left is given when the last path is closed, not when it was asked.
#[test]
fn a_volume_is_reported_until_its_paths_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut agent, closing) = agent(folder.path());
    agent.apply(config(5, Some(at(1)))).unwrap();
    assert_eq!(agent.inventory().paths[&VOLUME][0].epoch, Epoch(1));
    closing.store(true, std::sync::atomic::Ordering::SeqCst);
    agent.apply(config(6, None)).unwrap();
    let inventory = agent.inventory();
    assert_eq!(inventory.generation, Revision(6));
    assert!(inventory.paths.contains_key(&VOLUME), "it is still being closed");
    closing.store(false, std::sync::atomic::Ordering::SeqCst);
    agent.obey();
    agent.look();
    assert!(!agent.inventory().paths.contains_key(&VOLUME));
}

/// HA-4: while nothing serves, what there is stays.
#[test]
fn a_part_without_a_path_keeps_the_one_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let (mut agent, _) = agent(folder.path());
    agent.apply(config(5, Some(at(1)))).unwrap();
    let nothing = HostPart { volume: VOLUME, path: None, share: None };
    agent.apply(config(6, Some(nothing))).unwrap();
    assert_eq!(agent.inventory().paths[&VOLUME][0].epoch, Epoch(1));
    agent.apply(config(7, Some(at(2)))).unwrap();
    assert_eq!(agent.inventory().paths[&VOLUME][0].epoch, Epoch(2));
    assert_eq!(Local::read(folder.path()).unwrap().volumes, agent.held);
}

/// RS-1 for hosts: before a controller has spoken, nothing that is found is dropped.
#[test]
fn what_is_found_at_start_stays_until_a_config_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (mut agent, _) = agent(folder.path());
    let path = at(1).path.unwrap();
    agent.paths.follow(VOLUME, &path);
    agent.obey();
    agent.look();
    assert!(agent.inventory().paths.contains_key(&VOLUME));
    agent.apply(config(5, None)).unwrap();
    assert!(agent.inventory().paths.is_empty());
}
