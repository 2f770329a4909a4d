//! What engines and hosts are told: a pure function of the records.

use fixtures::Scene;
use model::{InstanceId, Key, NodePart, Revision};
use plan::{host_config, node_config, node_difference};

use crate::check_lines;

const TERM: InstanceId = InstanceId::from_u128(9);

/// The parts of a node's config, in lines.
#[track_caller]
fn check(text: &str, node: &str, expect: &[&str]) {
    let scene = Scene::new(text);
    let config = node_config(&scene.world, scene.names.node(node), TERM).unwrap();
    let mut lines = Vec::new();
    for (key, part) in &config.parts {
        match part.as_ref().unwrap() {
            NodePart::Pool(item) => lines.push(format!("{key} must_exist={}", item.must_exist)),
            NodePart::Tombstone => lines.push(key.to_string()),
            // Every engine hears of every other and of every host: the test below.
            NodePart::Peer { .. } | NodePart::Host { .. } => {}
            NodePart::Volume(part) => {
                for item in &part.replicas {
                    let admission = item.admission.map(|admission| admission.epoch.0);
                    lines.push(format!(
                        "replica {} must_exist={} admits={admission:?} from={:?}",
                        item.id, item.must_exist, item.origin,
                    ));
                }
                if let Some(item) = &part.target {
                    let (epoch, serve, hosts) = (item.epoch, item.serve, item.hosts.len());
                    lines.push(format!("target {epoch} serve={serve} hosts={hosts}"));
                    for child in &item.children {
                        let (rebuild, retire) = (child.rebuild, child.retire);
                        let id = child.replica;
                        lines.push(format!("child {id} rebuild={rebuild} retire={retire}"));
                    }
                }
            }
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| scene.names.readable(line)).collect();
    check_lines(&lines, expect, text);
}

/// RS-1, M-24: what was observed once must be found, and is never made again.
#[test]
fn what_was_observed_once_must_exist() {
    check(
        "node a; pool a1; volume v 1G x1: a1",
        "a",
        &["pool/a1 must_exist=true", "replica v/a1 must_exist=true admits=None from=None"],
    );
    check(
        "node a; pool a1 creating; volume v 1G x1 creating: a1 creating",
        "a",
        &["pool/a1 must_exist=false", "replica v/a1 must_exist=false admits=None from=None"],
    );
    check("node a; pool a1 forgotten", "a", &[]);
}

/// HA-3: a target is in no config before the copies refuse older ones.
#[test]
fn a_target_is_told_only_after_the_fence() {
    let v = "node a b; pool a1 b1; host h; volume v 1G x2 publish=h epoch=2";
    check(
        &format!("{v} on=a fencing: a1, b1"),
        "a",
        &["pool/a1 must_exist=true", "replica v/a1 must_exist=true admits=Some(2) from=None"],
    );
    check(
        &format!("{v} on=a: a1, b1 faulted rebuilding"),
        "a",
        &[
            "pool/a1 must_exist=true",
            "replica v/a1 must_exist=true admits=Some(2) from=None",
            "target 2 serve=true hosts=1",
            "child v/a1 rebuild=false retire=false",
            "child v/b1 rebuild=true retire=false",
        ],
    );
    check(
        &format!("{v} on=a stopping: a1, b1 retiring"),
        "a",
        &[
            "pool/a1 must_exist=true",
            "replica v/a1 must_exist=true admits=Some(2) from=None",
            "target 2 serve=false hosts=1",
            "child v/a1 rebuild=false retire=false",
            "child v/b1 rebuild=false retire=true",
        ],
    );
    check(
        &format!("{v} on=a: a1, b1"),
        "b",
        &["pool/b1 must_exist=true", "replica v/b1 must_exist=true admits=Some(2) from=None"],
    );
}

#[test]
fn a_copy_starts_from_a_snapshot_only_at_its_volumes_birth() {
    let s = "node a; pool a1; volume s 1G x1: a1; snapshot t of s: a1;";
    check(
        &format!("{s} volume v 1G x1 creating origin=t: a1 creating"),
        "a",
        &[
            "pool/a1 must_exist=true",
            "replica s/a1 must_exist=true admits=None from=None",
            "replica v/a1 must_exist=false admits=None from=Some(SnapshotId(t))",
        ],
    );
    check(
        &format!("{s} volume v 1G x1 origin=t: a1 creating"),
        "a",
        &[
            "pool/a1 must_exist=true",
            "replica s/a1 must_exist=true admits=None from=None",
            "replica v/a1 must_exist=false admits=None from=None",
        ],
    );
}

#[test]
fn tombstones_are_named_and_a_difference_takes_parts_away() {
    let text = "node a; pool a1; volume v 1G x1: a1; tombstone a: replica w/a1";
    check(
        text,
        "a",
        &[
            "pool/a1 must_exist=true",
            "replica v/a1 must_exist=true admits=None from=None",
            "tombstone/a/replica/w/a1/a1",
        ],
    );
    let scene = Scene::new(text);
    let gone = model::Key::Volume(scene.names.volume("gone"));
    let node = scene.names.node("a");
    let keys = [gone.clone()];
    let difference = node_difference(&scene.world, node, TERM, Revision(5), keys).unwrap();
    assert_eq!(difference.head.scope, model::Scope::Difference { base: Revision(5) });
    assert_eq!(difference.parts[&gone], None);
}

/// Same revision, same bytes.
#[test]
fn a_config_follows_from_the_records_alone() {
    let text = "node a; pool a1; host h; volume v 1G x1 publish=h on=a: a1";
    let other = format!("{text}; path h v: a@1 failed=1s").replace("node a", "node a dead");
    let (one, two) = (Scene::new(text), Scene::new(&other));
    let node = one.names.node("a");
    assert_eq!(node_config(&one.world, node, TERM), node_config(&two.world, node, TERM));
}

/// HA-4: a host gets a path only to a target that serves.
#[test]
fn a_host_is_sent_to_a_target_that_serves() {
    let path = |words: &str| {
        let text = format!("node a; pool a1; host h; volume v 1G x1 publish=h {words}: a1");
        let scene = Scene::new(&text);
        let config = host_config(&scene.world, scene.names.host("h"), TERM).unwrap();
        let part = config.parts.into_values().flatten().next();
        part.map(|part| part.path.map(|path| path.epoch.0))
    };
    assert_eq!(path("on=a epoch=2"), Some(Some(2)));
    assert_eq!(path("on=a starting"), Some(None));
    assert_eq!(path("on=a leaving=h"), None);
}

/// HA-3: whoever serves can reach the copies, and knows the hosts by the name they connect with.
#[test]
fn an_engine_knows_where_the_others_listen_and_the_names_of_hosts() {
    let scene = Scene::new("node a b; host h");
    let config = node_config(&scene.world, scene.names.node("a"), TERM).unwrap();
    let peer = &scene.world.node(scene.names.node("b")).unwrap().record.spec.address;
    let part = config.parts.get(&Key::Node(scene.names.node("b")));
    assert_eq!(part, Some(&Some(NodePart::Peer { address: peer.clone() })));
    let nqn = &scene.world.hosts.values().next().unwrap().record.spec.nqn;
    let part = config.parts.get(&Key::Host(scene.names.host("h")));
    assert_eq!(part, Some(&Some(NodePart::Host { nqn: nqn.clone() })));
    assert!(!config.parts.contains_key(&Key::Node(scene.names.node("a"))), "not itself");
}
