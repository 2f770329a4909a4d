//! Clusters: what seeds found of storage nodes, and that rules left out are noticed.

use storage_node::NodeMutation;

use crate::{Options, Report, Script, real_brain, run};

const THREE_NODES: &str = "controllers 2\nnode n1\nnode n2\nnode n3\n\
    disk p1 on n1 100GiB\ndisk p2 on n2 100GiB\ndisk p3 on n3 100GiB\ndisk p11 on n1 100GiB\n\
    host h1\n0.000 create pool p1 on n1\n0.000 create pool p2 on n2\n\
    0.000 create pool p3 on n3\n0.000 create pool p11 on n1\n";

fn play(mutation: Option<NodeMutation>, lines: &str) -> Report {
    let script = Script::parse(&format!("{THREE_NODES}{lines}")).unwrap();
    let options = Options { mutation, ..Options::default() };
    run(1, &script, real_brain(), options)
}

fn passes(lines: &str) {
    let report = play(None, lines);
    assert_eq!(report.failure, None);
    assert!(report.writes > 50 && report.reads > 20, "{} {}", report.writes, report.reads);
}

/// M-05: what a host writes through NVMe is what it reads, through pools on simulated disks.
#[test]
fn a_volume_on_real_nodes_is_written_and_read() {
    passes(
        "5.000 create volume v1 10GiB x3\n7.000 publish v1 to h1\n30.000 expect path h1 v1\n\
         expect volume v1 healthy\n",
    );
}

/// A replica that joins a target which serves already has none of the volume's data.
#[test]
fn a_replica_that_is_added_to_a_serving_volume_is_copied_whole() {
    passes(
        "5.000 create volume v1 10GiB x2\n7.000 publish v1 to h1\n30.000 scale v1 x3\n\
         expect volume v1 healthy\n",
    );
}

#[test]
fn killed_and_unpowered_nodes_lose_nothing_that_was_acknowledged() {
    passes(
        "5.000 create volume v1 4GiB x3\n7.000 publish v1 to h1\n15.000 kill n1 for 1s\n\
         25.000 power off n2 for 5s\n40.000 power off n3 for 5s\n45.000 power off n1 for 8s\n\
         60.000 isolate n2 for 9s\nexpect volume v1 healthy\n",
    );
}

/// Nobody wrote to it before: each of its replicas may be the one that it starts from.
#[test]
fn a_volume_that_was_scaled_down_before_its_first_target_starts_without_a_lost_node() {
    for node in ["n1", "n2", "n3"] {
        passes(&format!(
            "5.000 create volume v1 4GiB x3\n15.000 scale v1 x2\n30.000 power off {node}\n\
             60.000 publish v1 to h1\n110.000 expect path h1 v1\n"
        ));
    }
}

const HANGS: &str = "5.000 create volume v1 4GiB x3\n7.000 publish v1 to h1\n\
    20.000 hang p11 for 9s\n21.000 create volume v2 2GiB x3\nexpect volume v2 healthy\n";

/// One disk that hangs delays itself alone.
#[test]
fn a_disk_that_hangs_delays_no_config_of_its_node() {
    passes(HANGS);
}

/// Each config brings new work for the disk that hangs.
#[test]
fn configs_that_follow_one_another_to_a_hanging_disk_are_each_answered() {
    let create = |number| {
        let at = 20_200 + number * 700;
        format!("{}.{:03} create volume v1{number} 1GiB x3\n", at / 1_000, at % 1_000)
    };
    let more: String = (0..12).map(create).collect();
    passes(&format!(
        "5.000 create volume v1 4GiB x3\n7.000 publish v1 to h1\n20.000 hang p1 for 9s\n{more}"
    ));
}

#[test]
fn a_node_whose_configs_wait_for_every_pool_is_noticed() {
    let report = play(Some(NodeMutation::ApplyWaitsForEveryPool), HANGS);
    assert_eq!(report.failure.unwrap().promise, "configs-are-answered-in-time");
}

#[test]
fn a_node_that_forgets_to_tell_news_is_noticed() {
    let report = play(Some(NodeMutation::ReportForgotten), HANGS);
    assert_eq!(report.failure.unwrap().promise, "news-is-told-in-time");
}
