//! What holds of every rule, over random small worlds: the same world gives the same plan, a step
//! is not planned twice, no step breaks a promise, whoever is concerned by news is woken (all of
//! which the laboratory checks at every commit), and with the faults over everything comes to rest,
//! healthy.

use std::fmt::Write;

use fixtures::{Lab, Random, Scene};
use invariants::check_all;
use model::{Health, Liveness, Subject};
use plan::{Request, plan, status, sweep};

/// As many as a second allows; a change of the rules deserves a run over a few thousand.
const SEEDS: u64 = 8;
const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// A legal cluster: healthy records, and machines of which some are away or broken.
fn cluster(random: &mut Random) -> String {
    let mut text = String::new();
    for node in NODES {
        let state = match random.below(12) {
            0 => "dead",
            1 => "unknown",
            2 => "draining",
            3 => "cordoned",
            4 => "restarted",
            5 => "unheard",
            _ => "",
        };
        let zone = ["x", "y"][random.below(2)];
        writeln!(text, "node {node} zone={zone} {state}").unwrap();
        let health = match random.below(12) {
            0 => "faulted",
            1 => "importing",
            2 => "missing",
            _ => "",
        };
        writeln!(text, "pool {node}1 {}G {health}", 60 + 20 * random.below(4)).unwrap();
    }
    writeln!(text, "host h {}; host k on=b", ["", "dead"][usize::from(random.one_in(6))]).unwrap();
    for name in ["v", "w"] {
        volume(random, &mut text, name);
    }
    text
}

fn volume(random: &mut Random, text: &mut String, name: &str) {
    let first = random.below(NODES.len());
    let copies = 1 + random.below(3);
    let places: Vec<&str> = (0..copies).map(|at| NODES[(first + at) % NODES.len()]).collect();
    let wanted = 1 + random.below(3);
    let mut words = String::new();
    if random.one_in(3) {
        words.push_str("thin ");
    }
    if random.one_in(8) {
        words.push_str("deleting ");
    }
    if random.one_in(4) {
        words.push_str("spread=zone ");
    }
    let served = random.below(3);
    match served {
        0 => {}
        1 => write!(words, "publish=h on={} ", places[0]).unwrap(),
        _ => write!(words, "publish=k asked ").unwrap(),
    }
    let mut items = Vec::new();
    for (at, place) in places.iter().enumerate() {
        // One healthy copy at least, or no promise could hold.
        let health = if at > 0 && random.one_in(4) { "faulted" } else { "" };
        items.push(format!("{place}1 {health}"));
    }
    writeln!(text, "volume {name} 5G x{wanted} {words}: {}", items.join(", ")).unwrap();
    if random.one_in(3) {
        let held = items.iter().filter(|item| !item.contains("faulted")).map(String::as_str);
        let held: Vec<&str> = held.collect();
        writeln!(text, "snapshot s{name} of {name}: {}", held.join(", ")).unwrap();
    }
}

fn settle(lab: &mut Lab, seed: u64, text: &str) {
    if let Err(why) = lab.settle() {
        let last = &lab.log[lab.log.len().saturating_sub(40)..];
        panic!("seed {seed}: {why}\n{text}\n{last:#?}");
    }
}

#[test]
fn the_same_world_gives_the_same_plan() {
    for seed in 0..SEEDS {
        let text = cluster(&mut Random::seeded(seed));
        let (one, two) = (Scene::new(&text), Scene::new(&text));
        assert_eq!(check_all(&one.records), [], "seed {seed}: {text}");
        assert_eq!(sweep(&one.world), sweep(&two.world), "seed {seed}: {text}");
    }
}

/// RC-1: whatever is broken, the rules come to rest, and when it works again, to health.
#[test]
fn with_faults_it_comes_to_rest_and_without_them_to_health() {
    for seed in 0..SEEDS {
        let mut random = Random::seeded(seed);
        let text = cluster(&mut random);
        let mut lab = Lab::new(&text);
        settle(&mut lab, seed, &text);
        disturb(&mut lab, &mut random);
        settle(&mut lab, seed, &text);
        lab.heal();
        settle(&mut lab, seed, &text);
        assert_eq!(check_all(&lab.records), [], "seed {seed}: {text}");
        check_healthy(&lab, seed, &text);
    }
}

/// RC-1, HA-2: faults that strike in the middle of a repair or a switchover change nothing of that.
#[test]
fn faults_in_the_middle_of_things_end_in_health_too() {
    for seed in 0..SEEDS {
        let mut random = Random::seeded(seed);
        let text = cluster(&mut random);
        let mut lab = Lab::new(&text);
        for _ in 0..4 {
            let node = NODES[random.below(NODES.len())];
            let done = match random.below(4) {
                0 => lab.restart_node(node),
                1 => {
                    lab.judge_node(node, Liveness::Dead);
                    Ok(())
                }
                2 => {
                    lab.heal();
                    Ok(())
                }
                _ => {
                    disturb(&mut lab, &mut random);
                    Ok(())
                }
            };
            let rounds = random.below(8);
            if let Err(why) = done.and_then(|()| lab.run(rounds)) {
                panic!("seed {seed}: {why}\n{text}\n{:#?}", lab.log);
            }
        }
        lab.heal();
        settle(&mut lab, seed, &text);
        assert_eq!(check_all(&lab.records), [], "seed {seed}: {text}");
        check_healthy(&lab, seed, &text);
    }
}

/// Users ask for this and that, and another node dies.
fn disturb(lab: &mut Lab, random: &mut Random) {
    let volume = lab.names.volume(["v", "w"][random.below(2)]);
    let replicas = u8::try_from(1 + random.below(3)).unwrap();
    let node = NODES[random.below(NODES.len())];
    let host = lab.names.host("k");
    let attempt = lab.names.attempt("again");
    let deadline = lab.world.now + model::Millis::seconds(30);
    let requests = [
        Request::ScaleVolume { volume, replicas },
        Request::ResizeVolume { volume, size: model::Bytes::gib(6) },
        Request::PublishVolume { volume, attempt, deadline, hosts: [host].into() },
        Request::UnpublishVolume { volume, host: lab.names.host("h"), force: true },
        Request::DrainNode { node: lab.names.node(node), draining: true },
        Request::CordonNode { node: lab.names.node(node), cordoned: true },
        Request::ForgetNode { node: lab.names.node(node) },
        Request::ShareVolume { volume, consumers: [host].into() },
        Request::CreateSnapshot {
            id: lab.names.snapshot("t"),
            name: "t".into(),
            volume,
            attempt,
            deadline,
        },
        Request::CreateVolume {
            id: lab.names.volume("x"),
            name: "x".into(),
            labels: model::Labels::new(),
            spec: model::VolumeSpec {
                size: model::Bytes::gib(6),
                replicas,
                origin: lab.world.snapshots.keys().next().copied().filter(|_| random.one_in(2)),
                ..model::VolumeSpec::default()
            }
            .into(),
        },
        Request::DeleteVolume { volume, with_snapshots: true, force: true },
    ];
    for request in requests {
        // A forgotten node may take the last copy of a snapshot along, and no rule says so yet.
        let is_forgetting = matches!(request, Request::ForgetNode { .. });
        if is_forgetting && !lab.world.snapshots.is_empty() {
            continue;
        }
        if random.one_in(4) {
            // A refusal is an answer too.
            let _refused = lab.ask(&request);
        }
    }
    if random.one_in(2) {
        lab.judge_node(node, Liveness::Dead);
    }
}

/// Nothing is left to do, and every volume that is not short of room or of a copy is healthy.
fn check_healthy(lab: &Lab, seed: u64, text: &str) {
    for subject in lab.world.subjects().filter(|subject| matches!(subject, Subject::Volume(_))) {
        let plan = plan(&lab.world, subject);
        assert_eq!(plan.step, None, "seed {seed}: {text}");
        let status = status(&lab.world, subject, &plan).unwrap();
        let excused = plan.waits.iter().any(|wait| {
            matches!(
                wait,
                model::Wait::NoRoom { .. }
                    | model::Wait::NoHealthyCopy { .. }
                    | model::Wait::OthersHealthy { .. }
                    | model::Wait::NowhereToServe
            )
        });
        assert!(
            excused || status.health == Health::Healthy,
            "seed {seed}: {status:?}\n{:#?}\n{text}",
            lab.log
        );
    }
}
