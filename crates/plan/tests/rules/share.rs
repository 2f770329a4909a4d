//! A volume exported over NFS.

use crate::{check_lines, check_volumes as check, settled};

const NODES: &str = "node a b; pool a1 b1; host h on=b; host k on=a;";

#[test]
fn a_share_is_placed_beside_a_copy_on_a_host_that_stays() {
    check(&format!("{NODES} volume v 1G x1 share=k: b1"), &["v: PlaceShare h 1 Fencing (Asked)"]);
    check(
        "node a b draining; node c; pool a1 b1; host h on=b; host k on=c; \
         volume v 1G x1 share=h: b1",
        &[
            "v: PlaceShare k 1 Fencing (Asked)",
            "v waits: NoRoom 1G [(\"cordoned, drained or leaving\", 2)]",
        ],
    );
    check("node a; pool a1; host h dead; volume v 1G x1 share=h: a1", &["v waits: NowhereToServe"]);
}

/// SV-5, HA-8: a drain moves a share, and does not end it where there is nowhere to go.
#[test]
fn a_share_stays_on_a_drained_host_if_there_is_no_other() {
    let alone = "node a draining; node b; pool a1 b1; host h on=a; host k dead;";
    check(
        &format!("{alone} volume v 1G x1 share=k server=h on=b: b1"),
        &["v waits: NowhereToServe"],
    );
    check(&format!("{alone} volume v 1G x1 share=k: b1"), &["v: PlaceShare h 1 Fencing (Asked)"]);
}

#[test]
fn each_stage_of_a_share_ends_by_what_is_observed() {
    let v = format!("{NODES} volume v 1G x1 share=k server=h");
    check(&format!("{v} share-stage=fencing: b1"), &["v: AdvanceShare h 1 Attaching (Observed)"]);
    check(
        &format!("{v} share-stage=fencing leaving=k: b1; path k v: b@0 live"),
        &["v waits: HostLeaves k"],
    );
    check(&format!("{v} share-stage=attaching: b1"), &["v: IssueTarget b b 1 (NeededFor(Hosts))"]);
    check(
        &format!("{v} share-stage=attaching on=b: b1"),
        &["v: AdvanceShare h 1 Mounting (Observed)"],
    );
    check(&format!("{v} share-stage=mounting on=b: b1"), &["v waits: ShareStage h 1060s"]);
    check(
        &format!("{v} share-stage=mounting seen-stage=starting on=b: b1"),
        &["v: AdvanceShare h 1 Starting (Observed)"],
    );
    check(
        &format!("{v} share-stage=starting seen-stage=grace on=b: b1"),
        &["v: AdvanceShare h 1 Grace (Observed)"],
    );
    check(
        &format!("{v} share-stage=grace seen-stage=serving on=b: b1"),
        &["v: AdvanceShare h 1 Serving (Observed)"],
    );
    check(&format!("{v} share-stage=serving on=b: b1"), &[]);
}

/// SV-5: a lost server is replaced, and the volume is never mounted twice.
#[test]
fn a_lost_failed_or_stuck_server_is_placed_again() {
    check(
        "node a b; pool a1 b1; host h on=b dead; host k on=a; \
         volume v 1G x1 share=k server=h on=b: b1",
        &["v: PlaceShare k 2 Fencing (Failed \"the share's server is gone\")"],
    );
    check(
        &format!("{NODES} volume v 1G x1 share=k server=h seen-failed on=b: b1"),
        &["v: PlaceShare k 2 Fencing (Failed \"as the text says\")"],
    );
    check(
        &format!(
            "{NODES} volume v 1G x1 share=k server=h share-stage=mounting share-since=900s on=b: b1"
        ),
        &["v: PlaceShare k 2 Fencing (Deadline)"],
    );
}

#[test]
fn a_share_of_a_drained_host_moves_and_an_unwanted_one_ends() {
    check(
        "node a; node b draining; pool a1 b1; host h on=b; host k on=a; \
         volume v 1G x1 share=k server=h on=a: a1",
        &["v: AdvanceShare h 1 Draining (Observed)"],
    );
    check(
        &format!("{NODES} volume v 1G x1 server=h on=b: b1"),
        &["v: AdvanceShare h 1 Stopping (Asked)"],
    );
    check(
        &format!("{NODES} volume v 1G x1 server=h share-stage=stopping on=b: b1"),
        &["v: EndShare (Observed)"],
    );
}

/// SV-5: the whole way of a share, of its move from a dead server, and of its end.
#[test]
fn a_share_comes_up_moves_and_goes() {
    let mut lab = settled(&format!("{NODES} volume v 1G x1 share=k: b1"));
    check_lines(
        &lab.log,
        &[
            "v: PlaceShare h 1 Fencing (Asked)",
            "v: AdvanceShare h 1 Attaching (Observed)",
            "v: AdmitHost h (Asked)",
            "v: IssueTarget b b 1 (NeededFor(Hosts))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: AdvanceShare h 1 Mounting (Observed)",
            "v: AdvanceShare h 1 Starting (Observed)",
            "v: AdvanceShare h 1 Grace (Observed)",
            "v: AdvanceShare h 1 Serving (Observed)",
        ],
        "a share",
    );
    lab.log.clear();
    lab.judge_host("h", model::Liveness::Dead);
    lab.settle().unwrap();
    check_lines(
        &lab.log,
        &[
            "v: PlaceShare k 2 Fencing (Failed \"the share's server is gone\")",
            "v: ExpelHost h (Asked)",
            "v: ReleaseHost h (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
            "v: AdvanceShare k 2 Attaching (Observed)",
            "v: AdmitHost k (Asked)",
            "v: IssueTarget b b 2 (NeededFor(Hosts))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: AdvanceShare k 2 Mounting (Observed)",
            "v: AdvanceShare k 2 Starting (Observed)",
            "v: AdvanceShare k 2 Grace (Observed)",
            "v: AdvanceShare k 2 Serving (Observed)",
        ],
        "a moved share",
    );
    lab.log.clear();
    let volume = lab.names.volume("v");
    let consumers = [].into();
    lab.ask(&plan::Request::ShareVolume { volume, consumers }).unwrap();
    lab.settle().unwrap();
    check_lines(
        &lab.log,
        &[
            "v: AdvanceShare k 2 Stopping (Asked)",
            "v: EndShare (Observed)",
            "v: ExpelHost k (Asked)",
            "v: ReleaseHost k (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
        ],
        "an ended share",
    );
    check_lines(&lab.waits(), &[], "an ended share");
}
