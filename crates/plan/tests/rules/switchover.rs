//! Moving to a new target.

use fixtures::{Lab, Scene};
use model::{Liveness, Subject, TargetHealth};

use crate::{check_lines, check_volumes as check, settled};

const V: &str = "host h; volume v 1G x2 publish=h";
const DEAD: &str = "node a dead gone=1s; node b c; pool a1 b1 c1;";
const LOST: &str = "a1 gone=1s after=2000s, b1";

/// HA-7, RC-3: a dead node's target is moved without waiting for a host's report.
#[test]
fn a_lost_target_begins_a_switchover_with_its_cause() {
    check(
        &format!("{DEAD} {V} on=a: {LOST}"),
        &["v: BeginSwitchover NodeDead (Switchover(NodeDead))"],
    );
    check(
        &format!("node a restarted; node b; pool a1 b1; {V} on=a: a1, b1"),
        &["v: BeginSwitchover ProcessGone (Switchover(ProcessGone))"],
    );
    check(
        &format!("node a b; pool a1 b1; {V} on=a engine=fenced: a1, b1"),
        &["v: BeginSwitchover NotServing (Switchover(NotServing))"],
    );
    check(
        &format!("node a b; pool a1 b1; {V} on=a engine=failed: a1, b1"),
        &["v: BeginSwitchover NotServing (Switchover(NotServing))"],
    );
    check(
        &format!("node a b; pool a1 b1; {V} on=a engine=none: a1, b1"),
        &["v: BeginSwitchover NotServing (Switchover(NotServing))"],
    );
    check(
        &format!("node a draining; node b; pool a1 b1; {V} on=a: a1, b1"),
        &["v: BeginSwitchover Drain (Switchover(Drain))"],
    );
    check(
        &format!("node a forgotten; node b; pool a1 b1; {V} on=a: {LOST}"),
        &["v: BeginSwitchover NodeDead (Switchover(NodeDead))"],
    );
    check(
        &format!("node a b; pool a1 b1; {V} on=a starting since=980s: a1, b1; path h v:"),
        &["v: BeginSwitchover NotServing (Switchover(NotServing))"],
    );
}

#[test]
fn a_silent_node_is_not_a_dead_one() {
    check(&format!("node a unknown; node b; pool a1 b1; {V} on=a: a1, b1"), &[]);
    check(&format!("node a behind; node b; pool a1 b1; {V} on=a engine=none: a1, b1"), &[]);
}

/// A host's failed path moves a target that seems well, after the host has tried by itself.
#[test]
fn a_failed_path_moves_the_target_after_a_while() {
    let serving = format!("node a b; pool a1 b1; {V} on=a: a1, b1;");
    check(&format!("{serving} path h v: a@1 failed=999s"), &["v waits: PathRetried h 1001s"]);
    check(
        &format!("{serving} path h v: a@1 failed=998s"),
        &["v: BeginSwitchover PathFailed (Switchover(PathFailed))"],
    );
    check(&format!("{serving} path h v: a@1 failed=900s, a@1 live"), &[]);
    check(
        &format!("node a; pool a1; {V} on=a: a1; path h v: a@1 failed=900s"),
        &["v waits: NoRoom 1G [(\"on a node that has a copy\", 1)]"],
    );
}

/// HA-8: a drain moves the target only to a node that is not drained itself.
#[test]
fn a_drain_without_another_node_leaves_the_target() {
    check(
        &format!("node a b draining; pool a1 b1; {V} on=a: a1, b1"),
        &["v waits: NoRoom 1G [(\"cordoned, drained or leaving\", 2)]"],
    );
    check(
        "node a draining; pool a1; host h; volume v 1G x1 publish=h on=a: a1",
        &["v waits: NoRoom 1G [(\"cordoned, drained or leaving\", 1)]"],
    );
    check(
        "node a draining; node b; pool a1 b1; host h; volume v 1G x1 publish=h on=a: a1",
        &["v: BeginSwitchover Drain (Switchover(Drain))"],
    );
}

/// M-21: moves in short order wait longer each time, those of need do not.
#[test]
fn moves_back_off() {
    let uneasy = "path h v: a@1 failed=900s";
    let node = "node a b; pool a1 b1;";
    check(
        &format!("{node} {V} on=a moved=999s moves=1: a1, b1; {uneasy}"),
        &["v waits: Backoff 1001s"],
    );
    check(
        &format!("{node} {V} on=a moved=998s moves=1: a1, b1; {uneasy}"),
        &["v: BeginSwitchover PathFailed (Switchover(PathFailed))"],
    );
    check(
        &format!("{node} {V} on=a moved=900s moves=9: a1, b1; {uneasy}"),
        &["v waits: Backoff 1020s"],
    );
    check(
        &format!("{node} {V} on=a moved=400s moves=9: a1, b1; {uneasy}"),
        &["v: BeginSwitchover PathFailed (Switchover(PathFailed))"],
    );
    check(
        &format!("{DEAD} {V} on=a moved=999s moves=9: {LOST}"),
        &["v: BeginSwitchover NodeDead (Switchover(NodeDead))"],
    );
    check(
        &format!(
            "{DEAD} {V} on=b engine=failed moving=init from=a@0 tried=b moved=999s moves=2: {LOST}"
        ),
        &["v waits: Backoff 1003s", "v waits: ReplicaReturns v/a1 2000s"],
    );
    // Nobody serves: it is tried again soon, however often it has moved.
    check(
        &format!(
            "{DEAD} {V} on=b engine=failed moving=init from=a@0 tried=b moved=999s moves=9: {LOST}"
        ),
        &["v waits: Backoff 1004s", "v waits: ReplicaReturns v/a1 2000s"],
    );
    // A successor that died is followed at once.
    check(
        &format!("{DEAD} {V} on=a moving=init from=c@0 tried=a moved=999s moves=9: {LOST}"),
        &["v: Republish b b 2 (Switchover(NodeDead))"],
    );
}

/// HA-3: the old target's own node is the quicker cure while its process runs.
#[test]
fn a_target_that_failed_is_brought_back_where_it_was() {
    let init = "moving=init from=a@1";
    check(
        &format!("node a b; pool a1 b1; {V} on=a engine=failed {init} cause=idle: a1, b1"),
        &["v: Republish a a 2 (Switchover(NotServing))"],
    );
    check(
        &format!("node a b; pool a1 b1; {V} on=a engine=failed {init} cause=idle tried=a: a1, b1"),
        &["v: Republish b b 2 (Switchover(NotServing))"],
    );
    check(
        &format!("node a b; pool a1 b1; {V} on=a {init} cause=path: a1, b1"),
        &["v: Republish b b 2 (Switchover(PathFailed))"],
    );
    check(
        &format!("{DEAD} {V} on=a {init}: {LOST}"),
        &["v: Republish b b 2 (Switchover(NodeDead))"],
    );
}

/// HA-2: each stage ends by what is observed, whoever looks.
#[test]
fn each_stage_ends_by_what_is_observed() {
    let moving = format!("{DEAD} {V} on=b epoch=2 from=a@1 old=a@1");
    check(
        &format!("{moving} fencing moving=republish: {LOST}; path h v: a@1 failed=990s"),
        &["v: StartTarget (Observed)"],
    );
    check(
        &format!("{moving} moving=republish: {LOST}; path h v: a@1 failed=990s"),
        &["v: AdvanceSwitchover ReplacePath 2 (Switchover(NodeDead))"],
    );
    check(
        &format!("{moving} moving=replace: {LOST}; path h v: a@1 failed=990s"),
        &["v waits: PathLive h 2", "v waits: ReplicaReturns v/a1 2000s"],
    );
    check(
        &format!("{moving} moving=replace: {LOST}; path h v: a@1 failed=990s, b@2 live"),
        &["v waits: PathLive h 2", "v waits: ReplicaReturns v/a1 2000s"],
    );
    check(
        &format!("{moving} moving=replace: {LOST}; path h v: b@2 live"),
        &["v: AdvanceSwitchover DeleteTarget 2 (Switchover(NodeDead))"],
    );
    check(&format!("{moving} moving=delete: {LOST}"), &["v: BuryTargets (Switchover(NodeDead))"]);
    check(
        &format!("{DEAD} {V} on=b epoch=2 from=a@1 moving=delete: {LOST}"),
        &["v: FinishSwitchover (Switchover(NodeDead))"],
    );
}

/// HA-4, M-28: a dead consumer never blocks a switchover.
#[test]
fn a_dead_host_does_not_hold_paths_up() {
    check(
        &format!(
            "{DEAD} host h dead; volume v 1G x2 publish=h on=b epoch=2 from=a@1 old=a@1 \
             moving=replace: {LOST}"
        ),
        &["v: AdvanceSwitchover DeleteTarget 2 (Switchover(NodeDead))"],
    );
    check(
        &format!(
            "{DEAD} host h unknown; volume v 1G x2 publish=h on=b epoch=2 from=a@1 old=a@1 \
             moving=replace: {LOST}"
        ),
        &["v waits: PathLive h 2", "v waits: ReplicaReturns v/a1 2000s"],
    );
}

/// HA-5: what is left to clear away does not wait for a leaving host that may be silent for ever.
#[test]
fn a_silent_leaving_host_does_not_keep_the_old_target() {
    let moving = "host h dead; volume v 1G x2 leaving=h on=b epoch=2 from=a@1";
    let waits = ["v waits: HostSilent h", "v waits: ReplicaReturns v/a1 2000s"];
    let goes = |text: &str, step: &str| {
        check(&format!("{DEAD} {moving} {text}: {LOST}"), &[step, waits[0]]);
    };
    goes("old=a@1 moving=replace", "v: AdvanceSwitchover DeleteTarget 2 (Switchover(NodeDead))");
    goes("old=a@1 moving=delete", "v: BuryTargets (Switchover(NodeDead))");
    goes("moving=delete", "v: FinishSwitchover (Switchover(NodeDead))");
    check(&format!("{DEAD} {moving} moving=init: {LOST}"), &waits);
}

/// HA-2: a successor that dies begins again, and the node it died on is tried last.
#[test]
fn a_lost_successor_begins_again_with_a_new_epoch() {
    let text = "node a b dead gone=1s; node c; pool a1 b1 c1; host h; volume v 1G x3 publish=h \
                on=b epoch=2 from=a@1 old=a@1";
    let copies = "a1 gone=1s after=2000s, b1 gone=1s after=2000s, c1";
    for stage in ["republish", "replace", "delete"] {
        check(
            &format!("{text} moving={stage}: {copies}"),
            &["v: AdvanceSwitchover Init (Switchover(NodeDead))"],
        );
    }
    let mut lab = Lab::new(&format!("{text} moving=replace: {copies}"));
    lab.settle().unwrap();
    check_lines(
        &lab.log,
        &[
            "v: AdvanceSwitchover Init (Switchover(NodeDead))",
            "v: Republish c c 3 (Switchover(NodeDead))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: AdvanceSwitchover ReplacePath 3 (Switchover(NodeDead))",
            "v: AdvanceSwitchover DeleteTarget 3 (Switchover(NodeDead))",
            "v: BuryTargets (Switchover(NodeDead))",
            "v: FinishSwitchover (Switchover(NodeDead))",
        ],
        "a lost successor",
    );
}

#[test]
fn nowhere_to_go_is_an_error_that_ends_when_there_is() {
    let only = "node a dead gone=1s; node b unheard; pool a1 b1; host h; volume v 1G x1 publish=h";
    check(
        &format!("{only} on=a moving=init from=a@1: a1 gone=1s after=2s"),
        &[
            "v: AdvanceSwitchover Errored \"no copy that holds all acknowledged data can be \
             reached; missing: pool a1; bring one back, or promote an older copy and accept \
             data loss\" (Switchover(NodeDead))",
            "v waits: NoHealthyCopy [a1]",
            "v waits: NoHealthyCopy [a1]",
        ],
    );
    check(
        &format!("{only} on=a moving=errored from=a@1: a1 gone=1s after=2s"),
        &["v waits: NoHealthyCopy [a1]", "v waits: NoHealthyCopy [a1]"],
    );
    check(
        &format!("{DEAD} {V} on=a moving=errored from=a@1: {LOST}"),
        &["v: Republish b b 2 (Switchover(NodeDead))"],
    );
}

const STUCK: &str = "node a dead gone=1s; pool a1; host h; \
                     volume v 1G x1 publish=h epoch=3 from=b@1 old=b@1";

/// HA-5: a switchover that has nowhere to go may last for ever; its old targets do not.
#[test]
fn nowhere_to_go_leaves_no_old_target_behind() {
    let lost = "a1 gone=1s after=2s";
    let buried = ["v: BuryTargets (Switchover(NodeDead))", "v waits: NoHealthyCopy [a1]"];
    for b in ["node b;", "node b dead gone=1s;", "node b restarted;"] {
        check(&format!("{b} {STUCK} on=c moving=errored: {lost}"), &buried);
        check(&format!("{b} node c; {STUCK} on=c fencing moving=republish: {lost}"), &buried);
    }
    check(
        &format!("node b unknown; {STUCK} on=c moving=errored: {lost}"),
        &["v waits: NoHealthyCopy [a1]", "v waits: NoHealthyCopy [a1]"],
    );
}

/// HA-3: who is cut off from the copies may be wrong about them, and ends nothing that serves.
#[test]
fn an_old_target_that_serves_stays_while_there_is_nowhere_to_go() {
    let mut scene = Scene::new(&format!(
        "node b c; {STUCK} on=c moving=errored: a1 gone=1s after=2s; orphan b: v@1"
    ));
    let (b, v, h) = (scene.names.node("b"), scene.names.volume("v"), scene.names.host("h"));
    let inventory = scene.world.nodes.get_mut(&b).unwrap().inventory.as_mut().unwrap();
    inventory.targets.get_mut(&v).unwrap().hosts.insert(h);
    let waits = ["v waits: NoHealthyCopy [a1]", "v waits: NoHealthyCopy [a1]"];
    check_lines(&scene.plan(Subject::Volume(v)), &waits, "it serves");
    let inventory = scene.world.nodes.get_mut(&b).unwrap().inventory.as_mut().unwrap();
    inventory.targets.get_mut(&v).unwrap().health = TargetHealth::Fenced;
    let buried = ["v: BuryTargets (Switchover(NodeDead))", "v waits: NoHealthyCopy [a1]"];
    check_lines(&scene.plan(Subject::Volume(v)), &buried, "it is fenced");
}

/// OP-2: a volume that waits for its last copy does not hold up a node that was forgotten.
#[test]
fn nowhere_to_go_does_not_hold_up_a_forgotten_node() {
    let only = "node a dead gone=1s; node b; node c forgotten dead gone=1s; pool a1; host h; \
                volume v 1G x1 publish=h epoch=3 on=c from=b@1 old=b@1 moving=errored: \
                a1 gone=1s after=2s";
    check(only, &["v: AbandonTarget 4 (Switchover(NodeDead))", "v waits: NoHealthyCopy [a1]"]);
    let lab = settled(only);
    assert!(!lab.world.nodes.contains_key(&lab.names.node("c")));
    assert!(lab.records.tombstones.is_empty());
}

/// A switchover for hosts that have left ends with the target abandoned.
#[test]
fn a_switchover_that_nothing_needs_any_more_ends() {
    check(
        &format!("{DEAD} volume v 1G x2 on=a moving=init from=a@1: {LOST}"),
        &["v: AbandonTarget 2 (Unneeded)"],
    );
    check(
        &format!("{DEAD} volume v 1G x2 epoch=1 moving=init from=a@1: {LOST}"),
        &["v: AbandonTarget 2 (Unneeded)"],
    );
}

/// HA-2, HA-3, HA-4, HA-5, RC-3: the whole way: fence, serve, replace the path, bury the old one.
#[test]
fn a_dead_nodes_volume_is_served_from_another() {
    let lab = settled(&format!("{DEAD} {V} on=a: {LOST}"));
    check_lines(
        &lab.log,
        &[
            "v: BeginSwitchover NodeDead (Switchover(NodeDead))",
            "v: Republish b b 2 (Switchover(NodeDead))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: AdvanceSwitchover ReplacePath 2 (Switchover(NodeDead))",
            "v: AdvanceSwitchover DeleteTarget 2 (Switchover(NodeDead))",
            "v: BuryTargets (Switchover(NodeDead))",
            "v: FinishSwitchover (Switchover(NodeDead))",
            "v: PlaceReplica v/c1 (Degraded 1 2)",
            "v: ConfirmReplicas [v/c1] (Observed)",
            "v: GrantRebuild v/c1 (Degraded 1 2)",
            "v: EndRebuild v/c1 (Observed)",
            "v: RetireReplica v/a1 (Surplus 2)",
            "v: DropReplica v/a1 (Surplus 2)",
        ],
        "a switchover",
    );
    check_lines(&lab.waits(), &["a waits: TombstoneDone a Target v 1"], "a switchover");
}

/// HA-2: whatever was reached when the successor's node died, the volume is served in the end.
#[test]
fn a_successor_may_die_after_any_number_of_rounds() {
    let text = "node a b c d; pool a1 b1 c1 d1; host h; volume v 1G x3 publish=h on=a: a1, b1, c1";
    for rounds in 0..8 {
        let mut lab = Lab::new(text);
        lab.judge_node("a", Liveness::Dead);
        lab.run(rounds).unwrap();
        lab.judge_node("b", Liveness::Dead);
        lab.settle().unwrap_or_else(|why| panic!("after {rounds}: {why}\n{:#?}", lab.log));
        // If the copies were being resynced from the one on `b`, only its return can help.
        lab.heal();
        lab.settle().unwrap_or_else(|why| panic!("after {rounds}: {why}\n{:#?}", lab.log));
        let layout = &lab.world.volume(lab.names.volume("v")).unwrap().record.layout;
        let target = layout.target.as_ref().unwrap();
        assert_eq!(target.stage, model::TargetStage::Serving, "after {rounds}");
        assert_eq!((&layout.switchover, layout.old_targets.len()), (&None, 0), "after {rounds}");
    }
}

/// HA-8: a drain moves target and copies, and what comes back stays where it went.
#[test]
fn a_drain_moves_the_target_and_then_the_copy() {
    let lab = settled(&format!("node a draining; node b c; pool a1 b1 c1; {V} on=a: a1, b1"));
    check_lines(
        &lab.log,
        &[
            "v: BeginSwitchover Drain (Switchover(Drain))",
            "v: Republish b b 2 (Switchover(Drain))",
            "v: StartTarget (Observed)",
            "v: PlaceReplica v/c1 (Degraded 2 2)",
            "v: ConfirmReplicas [v/c1] (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: AdvanceSwitchover ReplacePath 2 (Switchover(Drain))",
            "v: AdvanceSwitchover DeleteTarget 2 (Switchover(Drain))",
            "v: BuryTargets (Switchover(Drain))",
            "a: ClearTombstones [Target v, 1] (Observed)",
            "v: FinishSwitchover (Switchover(Drain))",
            "v: GrantRebuild v/c1 (Degraded 1 2)",
            "v: EndRebuild v/c1 (Observed)",
            "v: RetireReplica v/a1 (Draining a)",
            "v: DropReplica v/a1 (Draining a)",
            "a: ClearTombstones [Replica v/a1, a1] (Observed)",
        ],
        "a drain",
    );
    check_lines(&lab.waits(), &[], "a drain");
}
