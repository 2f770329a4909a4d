//! Starting and stopping the target.

use crate::{check_lines, check_volumes as check, settled};

const PUBLISHED: &str = "host h; volume v 1G x2 publish=h pending admitted=h";

/// LC-3: a target is issued to a node with a good copy, and to none of the copies without it.
#[test]
fn a_target_is_issued_where_a_good_copy_is() {
    check(
        &format!("node a b c; pool a1 b1 c1; {PUBLISHED}: b1, c1"),
        &["v: IssueTarget b b 1 (NeededFor(Hosts))", "v waits: Attempt 1060s"],
    );
    check(
        &format!("node a b c; pool a1 b1 c1; {PUBLISHED}: b1 faulted, c1"),
        &["v: IssueTarget c c 1 (NeededFor(Hosts))", "v waits: Attempt 1060s"],
    );
}

#[test]
fn a_target_prefers_nodes_that_are_free_and_stay() {
    check(
        &format!("node b draining; node a c; pool a1 b1 c1; {PUBLISHED}: b1, c1"),
        &["v: IssueTarget c c 1 (NeededFor(Hosts))", "v waits: Attempt 1060s"],
    );
    check(
        &format!("node b cordoned; node a c; pool a1 b1 c1; {PUBLISHED}: b1, c1"),
        &["v: IssueTarget c c 1 (NeededFor(Hosts))", "v waits: Attempt 1060s"],
    );
    check(
        &format!(
            "node a b c; pool a1 b1 c1; volume w 1G x1 on=b epoch=1: b1 rebuilding; \
             {PUBLISHED}: b1, c1"
        ),
        &[
            "v: IssueTarget c c 1 (NeededFor(Hosts))",
            "v waits: Attempt 1060s",
            "w: EndRebuild w/b1 (Observed)",
        ],
    );
    check(
        &format!("node b c draining; node a; pool a1 b1 c1; {PUBLISHED}: b1, c1"),
        &["v: IssueTarget a a 1 (NeededFor(Hosts))", "v waits: Attempt 1060s"],
    );
}

#[test]
fn no_target_while_a_copy_with_all_data_may_only_be_silent() {
    check(
        &format!("node a; node b unknown; pool a1 b1; {PUBLISHED}: a1, b1"),
        &["v waits: Attempt 1060s", "v waits: NodeHeard b"],
    );
    check(
        &format!("node a; node b unheard; pool a1 b1; {PUBLISHED}: a1, b1"),
        &["v waits: Attempt 1060s", "v waits: NodeHeard b"],
    );
}

#[test]
fn without_a_reachable_copy_the_missing_pools_are_named() {
    check(
        &format!(
            "node a; node b dead; pool a1 b1; {PUBLISHED} epoch=1: a1 faulted, b1 gone=1s after=2s"
        ),
        &["v waits: NoHealthyCopy [b1]", "v waits: Attempt 1060s", "v waits: NoHealthyCopy [b1]"],
    );
}

/// HA-3: a target starts only when every copy recorded healthy refuses older ones.
#[test]
fn a_target_starts_when_every_reachable_copy_is_fenced() {
    let fencing = "on=a fencing epoch=2";
    check(
        &format!("node a b; pool a1 b1; {PUBLISHED} {fencing}: a1, b1 at=1"),
        &["v waits: Attempt 1060s", "v waits: Fence v/b1 b 2"],
    );
    check(
        &format!("node a b; pool a1 b1; {PUBLISHED} {fencing}: a1, b1"),
        &["v: StartTarget (Observed)", "v waits: Attempt 1060s"],
    );
    check(
        &format!("node a b; pool a1 b1; {PUBLISHED} {fencing}: a1, b1 faulted at=1"),
        &["v: StartTarget (Observed)", "v waits: Attempt 1060s"],
    );
    check(
        &format!(
            "node a; node b dead; pool a1 b1; {PUBLISHED} {fencing}: a1, b1 at=1 gone=1s after=2s"
        ),
        &["v: StartTarget (Observed)", "v waits: Attempt 1060s"],
    );
    check(
        &format!("node a; node b unknown; pool a1 b1; {PUBLISHED} {fencing}: a1, b1 at=1"),
        &["v waits: Attempt 1060s", "v waits: Fence v/b1 b 2"],
    );
}

#[test]
fn an_issued_epoch_is_above_every_one_that_was_seen() {
    check(
        &format!("node a b; pool a1 b1; {PUBLISHED} epoch=3: a1 at=7, b1"),
        &["v: IssueTarget a a 8 (NeededFor(Hosts))", "v waits: Attempt 1060s"],
    );
}

#[test]
fn a_target_is_confirmed_when_it_serves_and_has_a_time_to() {
    let starting = "on=a starting";
    check(
        &format!("node a b; pool a1 b1; {PUBLISHED} {starting} engine=serving: a1, b1"),
        &["v: ConfirmTarget (Observed)", "v waits: Attempt 1060s"],
    );
    check(
        &format!("node a b; pool a1 b1; {PUBLISHED} {starting} since=990s: a1, b1"),
        &["v waits: Attempt 1060s", "v waits: TargetStarts a 1 1005s"],
    );
}

#[test]
fn a_target_that_nothing_needs_is_stopped_and_removed() {
    let v = "node a b; pool a1 b1; volume v 1G x2";
    check(&format!("{v} on=a: a1, b1"), &["v: StopTarget (Unneeded)"]);
    check(&format!("{v} on=a fencing: a1, b1"), &["v: RemoveTarget (Unneeded)"]);
    check(&format!("{v} on=a stopping: a1, b1"), &["v waits: TargetStops a 1 1030s"]);
    check(
        &format!("{v} on=a stopping engine=none unowned clean: a1, b1"),
        &["v: RemoveTarget (Observed)"],
    );
    check(&format!("{v} on=a stopping engine=fenced: a1, b1"), &["v: AbandonTarget 2 (Unneeded)"]);
}

#[test]
fn a_target_that_left_without_giving_the_record_back_is_fenced() {
    check(
        "node a b; pool a1 b1; volume v 1G x2 on=a stopping engine=none: a1, b1",
        &["v: AbandonTarget 2 (Unneeded)"],
    );
}

/// HA-9: a target that cannot be told is shut out by a higher epoch.
#[test]
fn a_target_that_cannot_be_stopped_is_abandoned_and_fenced() {
    let dead = "node a dead gone=1s; node b; pool a1 b1;";
    check(
        &format!("{dead} volume v 1G x2 on=a: a1 gone=1s after=2000s, b1"),
        &["v: AbandonTarget 2 (Unneeded)"],
    );
    check(
        &format!("{dead} volume v 1G x2 on=a stopping: a1 gone=1s after=2000s, b1"),
        &["v: AbandonTarget 2 (Unneeded)"],
    );
    check(
        "node a restarted; node b; pool a1 b1; volume v 1G x2 on=a: a1, b1",
        &["v: AbandonTarget 2 (Unneeded)"],
    );
}

#[test]
fn a_target_that_is_stopping_stops_even_if_it_is_wanted_again() {
    check(
        &format!("node a b; pool a1 b1; {PUBLISHED} on=a stopping: a1, b1"),
        &["v waits: Attempt 1060s", "v waits: TargetStops a 1 1030s"],
    );
}

/// The whole life of a target that was only needed for a repair leaves a clean record.
#[test]
fn a_target_for_a_repair_goes_when_it_is_done() {
    let lab = settled("node a b; pool a1 b1; volume v 1G x2 epoch=1: a1, b1 faulted");
    check_lines(
        &lab.log,
        &[
            "v: GrantRebuild v/b1 (Degraded 1 2)",
            "v: IssueTarget a a 2 (NeededFor(Repair))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: EndRebuild v/b1 (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
        ],
        "a repair",
    );
    let view = lab.world.volume(lab.names.volume("v")).unwrap();
    assert!(view.membership.as_ref().unwrap().clean);
}

/// LC-1: create, publish, serve, in this order.
#[test]
fn a_new_volume_is_made_and_published_in_order() {
    let lab = settled(
        "node a b; pool a1 b1; host h; \
         volume v 1G x2 creating publish=h asked: a1 creating absent, b1 creating absent",
    );
    check_lines(
        &lab.log,
        &[
            "v: AcceptPublish try (Asked)",
            "v: ConfirmReplicas [v/a1, v/b1] (Observed)",
            "v: FinishCreation (Observed)",
            "v: AdmitHost h (Asked)",
            "v: IssueTarget a a 1 (NeededFor(Hosts))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: FinishPublish try (Observed)",
        ],
        "a new volume",
    );
}

/// RC-4: a leaving host that is silent keeps no target from being started for the copies.
#[test]
fn copies_are_repaired_beside_a_silent_host() {
    check(
        "node a c; node b dead gone=1s forgotten; pool a1 b1 c1; host h dead; \
         volume v 1G x2 leaving=h epoch=1: \
         a1, b1 retiring gone=1s after=2s, c1 outsider rebuilding",
        &["v: IssueTarget a a 2 (NeededFor(Repair))", "v waits: HostSilent h"],
    );
}
