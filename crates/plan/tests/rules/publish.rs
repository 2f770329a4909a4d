//! Hosts in and out.

use crate::{check_lines, check_volumes as check, settled};

const TWO: &str = "node a b; pool a1 b1; host h k;";

#[test]
fn an_attempt_is_accepted_its_host_admitted_and_a_target_issued() {
    check(
        &format!("{TWO} volume v 1G x2 publish=h asked: a1, b1"),
        &["v: AcceptPublish try (Asked)"],
    );
    check(
        &format!("{TWO} volume v 1G x2 publish=h pending: a1, b1"),
        &["v: AdmitHost h (Asked)", "v waits: Attempt 1060s"],
    );
    check(
        &format!("{TWO} volume v 1G x2 publish=h pending admitted=h: a1, b1"),
        &["v: IssueTarget a a 1 (NeededFor(Hosts))", "v waits: Attempt 1060s"],
    );
}

#[test]
fn a_publish_ends_with_a_live_path_of_every_host() {
    let serving = format!("{TWO} volume v 1G x2 publish=h pending admitted=h on=a: a1, b1;");
    check(&serving, &["v: FinishPublish try (Observed)"]);
    check(&format!("{serving} path h v: a@1 connecting"), &["v waits: Attempt 1060s"]);
    check(&format!("{serving} path h v: b@0 live"), &["v waits: Attempt 1060s"]);
}

/// LC-4: at the deadline the attempt is withdrawn, with the reason that held it up.
#[test]
fn at_the_deadline_an_attempt_is_withdrawn() {
    check(
        &format!(
            "{TWO} volume v 1G x2 publish=h pending admitted=h on=a by=1000s: a1, b1; \
             path h v: a@1 connecting"
        ),
        &["v: WithdrawPublish try \"no host had a live path by the deadline\" (Deadline)"],
    );
    check(
        &format!(
            "{TWO} volume v 1G x2 publish=h pending admitted=h on=a starting by=1000s: a1, b1"
        ),
        &["v: WithdrawPublish try \"the target did not serve by the deadline\" (Deadline)"],
    );
}

#[test]
fn at_the_deadline_some_hosts_of_many_are_enough() {
    check(
        &format!(
            "{TWO} volume v 1G x2 many publish=h+k pending admitted=h+k on=a by=1000s: a1, b1; \
             path k v: a@1 connecting"
        ),
        &["v: FinishPublish try (Deadline)"],
    );
}

/// LC-4: a target that fails before it ever served fails the attempt.
#[test]
fn a_target_that_fails_before_it_served_withdraws_the_attempt() {
    check(
        &format!(
            "{TWO} volume v 1G x2 publish=h pending admitted=h on=a starting engine=failed: a1, b1"
        ),
        &["v: WithdrawPublish try \"the target failed: as the text says\" \
             (Switchover(NotServing))"],
    );
    check(
        "node a dead gone=1s; node b; pool a1 b1; host h; volume v 1G x2 publish=h pending \
         admitted=h on=a starting: a1 gone=1s after=1020s, b1",
        &["v: WithdrawPublish try \"the target's node is dead\" (Switchover(NodeDead))"],
    );
}

/// LC-4: a failed attempt is not tried again, and everything it took is given back.
#[test]
fn what_a_failed_attempt_took_is_given_back() {
    let failed = "volume v 1G x2 publish=h failed";
    check(&format!("{TWO} {failed} admitted=h on=a: a1, b1"), &["v: ExpelHost h (Asked)"]);
    check(&format!("{TWO} {failed} on=a: a1, b1"), &["v: StopTarget (Unneeded)"]);
    check(&format!("{TWO} {failed}: a1, b1"), &[]);
    let lab = settled("node a b; pool a1 b1; host h dead; volume v 1G x2 publish=h asked: a1, b1");
    check_lines(
        &lab.log,
        &[
            "v: AcceptPublish try (Asked)",
            "v: AdmitHost h (Asked)",
            "v: IssueTarget a a 1 (NeededFor(Hosts))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: WithdrawPublish try \"no host had a live path by the deadline\" (Deadline)",
            "v: ExpelHost h (Asked)",
        ],
        "a dead host",
    );
    check_lines(&lab.waits(), &["v waits: HostSilent h"], "a dead host");
}

#[test]
fn an_unpublished_volume_ends_its_publication_when_the_host_is_out() {
    check(&format!("{TWO} volume v 1G x2 published: a1, b1"), &["v: EndPublication (Asked)"]);
    check(&format!("{TWO} volume v 1G x2 admitted=h on=a: a1, b1"), &["v: ExpelHost h (Asked)"]);
    let lab = settled(&format!("{TWO} volume v 1G x2 published admitted=h on=a: a1, b1"));
    check_lines(
        &lab.log,
        &[
            "v: ExpelHost h (Asked)",
            "v: ReleaseHost h (Observed)",
            "v: EndPublication (Asked)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
        ],
        "an unpublish",
    );
}

/// A host is out when it says so and its sessions are closed.
#[test]
fn a_leaving_host_is_released_by_its_word_and_the_targets() {
    let leaving = "volume v 1G x2 leaving=h on=a";
    check(&format!("{TWO} {leaving}: a1, b1"), &["v waits: HostLeaves h"]);
    check(&format!("{TWO} {leaving}: a1, b1; path h v:"), &["v waits: SessionsClose h"]);
    check(
        &format!("{TWO} {leaving} sessions=none: a1, b1; path h v:"),
        &["v: ReleaseHost h (Observed)"],
    );
    check(
        &format!("node a b; pool a1 b1; host h behind; {leaving} sessions=none: a1, b1; path h v:"),
        &["v waits: HostLeaves h"],
    );
    check(
        &format!(
            "node a behind; node b; pool a1 b1; host h; {leaving} sessions=none: a1, b1; path h v:"
        ),
        &["v waits: SessionsClose h"],
    );
}

/// OP-3: of a host that cannot answer a person decides, and the fence makes it safe.
#[test]
fn a_dead_host_is_released_only_by_force_and_after_its_sessions() {
    let dead = "node a b; pool a1 b1; host h dead;";
    check(&format!("{dead} volume v 1G x2 leaving=h on=a: a1, b1"), &["v waits: HostSilent h"]);
    check(
        &format!("{dead} volume v 1G x2 leaving=h severed=h on=a: a1, b1"),
        &["v waits: SessionsClose h"],
    );
    check(
        &format!("{dead} volume v 1G x2 leaving=h severed=h on=a sessions=none: a1, b1"),
        &["v: ReleaseHost h (Observed)"],
    );
    check(
        &format!("{dead} volume v 1G x2 leaving=h severed=h on=a fencing: a1, b1"),
        &["v: ReleaseHost h (Observed)"],
    );
}

/// OP-3, M-28: the pod moves to another host; the dead one's target is fenced, not hoped for.
#[test]
fn a_severed_host_on_a_dead_node_makes_way_for_the_next() {
    let lab = settled(
        "node a dead gone=1s; node b c; pool a1 b1 c1; host h dead; host k; volume v 1G x2 \
         publish=k asked leaving=h severed=h on=a: a1 gone=1s after=1020s, b1",
    );
    check_lines(
        &lab.log,
        &[
            "v: AcceptPublish try (Asked)",
            "v: BeginSwitchover NodeDead (Switchover(NodeDead))",
            "v: Republish b b 2 (Switchover(NodeDead))",
            "v: ReleaseHost h (Observed)",
            "v: AdmitHost k (Asked)",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: FinishPublish try (Observed)",
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
        "a moved pod",
    );
    check_lines(&lab.waits(), &["a waits: TombstoneDone a Target v 1"], "a moved pod");
}

#[test]
fn an_exclusive_volume_lets_the_next_host_in_only_when_the_last_is_out() {
    check(
        &format!("{TWO} volume v 1G x2 publish=k pending leaving=h on=a: a1, b1"),
        &["v waits: Attempt 1060s", "v waits: HostLeaves h"],
    );
    check(
        &format!("{TWO} volume v 1G x2 many publish=h+k pending admitted=h on=a: a1, b1"),
        &["v: AdmitHost k (Asked)", "v waits: Attempt 1060s"],
    );
}
