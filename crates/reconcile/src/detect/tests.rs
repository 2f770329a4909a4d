//! Verdicts after a controller's own absence.

use alloc::string::ToString;

use model::{Entry, Host, HostLayout, HostSpec, Key, Meta, Record, Revision};

use super::*;
use crate::{Config, Event};

const DEAD: u64 = DEAD_AFTER.0;

/// A controller that began to listen at zero, missed a while, and goes on at `until`.
fn after_a_pause(until: Time) -> Detector {
    let mut detector = Detector::default();
    detector.begin_turn(Time(0));
    detector.begin_turn(until);
    detector
}

/// HA-7: whoever was dead may have come back while this controller was away.
#[test]
fn an_old_verdict_of_death_is_not_kept_over_a_pause() {
    let now = Time(10 * DEAD);
    let detector = after_a_pause(now);
    let heard = Heard::speaking(Time(DEAD));
    let verdict = |known, now| detector.verdict(Some(&heard), known, now);
    assert_eq!(verdict(Liveness::Dead, now), Liveness::Unknown);
    assert_eq!(verdict(Liveness::Unknown, now), Liveness::Unknown);
    assert_eq!(verdict(Liveness::Alive, now), Liveness::Alive);
    assert_eq!(verdict(Liveness::Unknown, now + DEAD_AFTER), Liveness::Dead);
    assert_eq!(verdict(Liveness::Alive, now + DEAD_AFTER), Liveness::Dead);
}

/// HA-7: a closed stream is death, whoever was late.
#[test]
fn a_closed_stream_outlasts_a_pause() {
    let now = Time(10 * DEAD);
    let detector = after_a_pause(now);
    let closed = Heard::closed(Time(DEAD));
    assert_eq!(detector.verdict(Some(&closed), Liveness::Dead, now), Liveness::Dead);
}

/// HA-7: a process that is wrongly called past is believed again before its node is given up.
#[test]
fn the_wrong_process_on_record_is_doubted_before_its_node_is_dead() {
    let mut detector = Detector::default();
    let beats = (0..10).map(|beat| Time(beat * model::limits::HEARTBEAT_EVERY.0));
    beats.for_each(|at| detector.begin_turn(at));
    let heard = Heard::speaking(Time(2_000));
    let at = |late: u64| Time(2_000 + late);
    assert!(!detector.is_quiet(Some(&heard), at(model::limits::HEARTBEAT_EVERY.0)));
    let doubted = (0..DEAD).find(|late| detector.is_quiet(Some(&heard), at(*late))).unwrap();
    assert!(doubted + model::limits::HEARTBEAT_EVERY.0 < DEAD, "{doubted}");
    assert_eq!(detector.verdict(Some(&heard), Liveness::Alive, at(doubted)), Liveness::Alive);
}

/// HA-4: a host that was started anew has no path yet, and what its last process said of its paths
/// does not count, not even before the new one is on record.
#[test]
fn a_new_process_of_a_host_ends_what_its_predecessor_reported() {
    let (host, first, second) = (HostId::from_u128(1), instance(1), instance(2));
    let mut reconciler = Reconciler::new(Config::new(instance(9), 1));
    let entries = alloc::vec![recorded(host, first, Revision(1))];
    let loaded = Event::Loaded { entries, revision: Revision(1) };
    reconciler.handle(Time(0), loaded);
    let inventory = HostInventory {
        host,
        instance: first,
        generation: Revision(1),
        sequence: 1,
        paths: BTreeMap::new(),
        shares: BTreeMap::new(),
    };
    reconciler.handle(Time(1), Event::HostInventory(inventory));
    reconciler.handle(Time(2), Event::HostHeartbeat { host, instance: first });
    let reported = |reconciler: &Reconciler| reconciler.world.hosts[&host].inventory.is_some();
    assert!(reported(&reconciler));
    reconciler.handle(Time(3), Event::HostHeartbeat { host, instance: second });
    assert!(!reported(&reconciler));
}

/// HA-3: an engine that was started anew has admitted nothing and has no config, also where nobody
/// could put it on record: a target that waits for it waits on.
#[test]
fn a_new_process_of_a_node_ends_what_its_predecessor_reported() {
    let (node, first, second) = (NodeId::from_u128(1), instance(1), instance(2));
    let mut reconciler = Reconciler::new(Config::new(instance(9), 1));
    let record = model::Node {
        meta: Meta::new(node, "n", Time(0)),
        spec: model::NodeSpec::default(),
        layout: model::NodeLayout { instance: Some(first), ..model::NodeLayout::default() },
    };
    let entry = Entry {
        key: Key::Node(node).to_string(),
        value: Record::Node(record.into()).encode(),
        created: Revision(1),
        modified: Revision(1),
        lease: None,
    };
    let entries = alloc::vec![entry];
    reconciler.handle(Time(0), Event::Loaded { entries, revision: Revision(1) });
    let inventory = Inventory {
        node,
        instance: first,
        generation: Revision(1),
        sequence: 1,
        pools: BTreeMap::new(),
        replicas: BTreeMap::new(),
        targets: BTreeMap::new(),
        devices: alloc::vec![],
    };
    reconciler.handle(Time(1), Event::Inventory(inventory.into()));
    let reported = |reconciler: &Reconciler| reconciler.world.nodes[&node].inventory.is_some();
    assert!(reported(&reconciler));
    reconciler.handle(Time(2), Event::Heartbeat { node, instance: second });
    assert!(!reported(&reconciler));
}

/// RS-4: a process that registered while this controller heard nothing of the store is the one that
/// counts once the store is read anew; its predecessor is not put on record again.
#[test]
fn a_store_read_anew_tells_which_process_is_past() {
    let (host, first, second) = (HostId::from_u128(1), instance(1), instance(2));
    let mut reconciler = Reconciler::new(Config::new(instance(9), 1));
    let (name, nqn) = ("h".to_string(), "nqn.h".to_string());
    let greeting = Event::HostRegistered { host, name, nqn, node: None, instance: first };
    reconciler.handle(Time(0), greeting);
    for (revision, instance) in [(1, first), (9, second)] {
        let entries = alloc::vec![recorded(host, instance, Revision(revision))];
        let loaded = Event::Loaded { entries, revision: Revision(revision) };
        reconciler.handle(Time(revision), loaded);
    }
    assert_eq!(reconciler.registry.current_host(host), Some(second));
    assert!(reconciler.registry.is_past(first) && !reconciler.registry.is_past(second));
}

/// RS-4: one that spoke before the store was read may be older than the one that is on record:
/// whoever speaks next is the one.
#[test]
fn a_process_heard_before_the_store_was_read_is_put_on_record_only_if_it_speaks_again() {
    let (host, early, on_record) = (HostId::from_u128(1), instance(1), instance(2));
    for speaks in [early, on_record] {
        let mut reconciler = Reconciler::new(Config::new(instance(9), 1));
        let (name, nqn) = ("h".to_string(), "nqn.h".to_string());
        let greeting = Event::HostRegistered { host, name, nqn, node: None, instance: early };
        reconciler.handle(Time(0), greeting);
        let entries = alloc::vec![recorded(host, on_record, Revision(1))];
        reconciler.handle(Time(1), Event::Loaded { entries, revision: Revision(1) });
        assert!(reconciler.host_registration(host).is_none(), "nobody knows yet");
        reconciler.handle(Time(2), Event::HostHeartbeat { host, instance: speaks });
        assert_eq!(reconciler.registry.current_host(host), Some(speaks));
        let is_changed = reconciler.host_registration(host).is_some();
        assert_eq!(is_changed, speaks == early);
    }
}

/// RS-4: one that was put on record by mistake, and is followed by the right one again, leaves no
/// doubt about that one.
#[test]
fn who_is_on_record_again_is_not_past() {
    let (host, right, wrong) = (HostId::from_u128(1), instance(1), instance(2));
    let mut reconciler = Reconciler::new(Config::new(instance(9), 1));
    for (revision, instance) in [(1, right), (2, wrong), (3, right)] {
        let entries = alloc::vec![recorded(host, instance, Revision(revision))];
        let loaded = Event::Loaded { entries, revision: Revision(revision) };
        reconciler.handle(Time(revision), loaded);
    }
    assert!(reconciler.registry.is_past(wrong) && !reconciler.registry.is_past(right));
}

/// HA-7: what hosts do through a node keeps it alive, and does not speak for the process that is
/// on record.
#[test]
fn progress_through_a_node_does_not_hide_that_its_process_is_silent() {
    let mut detector = Detector::default();
    let node = NodeId::from_u128(1);
    detector.nodes.insert(node, Heard::speaking(Time(0)));
    let beats = (0..40).map(|beat| Time(beat * model::limits::HEARTBEAT_EVERY.0));
    let mut now = Time(0);
    for at in beats {
        detector.begin_turn(at);
        detector.heard_through(node, at);
        now = at;
    }
    let heard = detector.nodes.get(&node);
    assert!(detector.is_quiet(heard, now));
    assert_eq!(detector.verdict(heard, Liveness::Alive, now), Liveness::Alive);
}

fn recorded(host: HostId, instance: InstanceId, modified: Revision) -> Entry {
    Entry {
        key: Key::Host(host).to_string(),
        value: Record::Host(registered(host, instance).into()).encode(),
        created: Revision(1),
        modified,
        lease: None,
    }
}

fn instance(number: u128) -> InstanceId {
    InstanceId::from_u128(number)
}

fn registered(host: HostId, instance: InstanceId) -> Host {
    Host {
        meta: Meta::new(host, "h", Time(0)),
        spec: HostSpec::default(),
        layout: HostLayout { instance: Some(instance), ..HostLayout::default() },
    }
}
