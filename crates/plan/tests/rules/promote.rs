//! The last healthy copy is gone for ever, and a person accepted what that means.

use crate::{check_volumes as check, settled};

const GONE: &str = "node a b; node c dead gone=1s; pool a1 b1 c1;";

/// OP-1: nothing ever promotes a copy by itself; what is missing is named.
#[test]
fn without_a_persons_word_an_old_copy_is_not_served() {
    check(
        &format!("{GONE} volume v 10G x2 epoch=1: a1 faulted, c1 gone=900s after=920s"),
        &["v waits: NoHealthyCopy [c1]"],
    );
}

/// OP-1: the copy with the newest roster is the best one.
#[test]
fn the_newest_copy_is_promoted_or_the_one_that_was_chosen() {
    let copies = "a1 faulted roster=3, b1 faulted roster=2, c1 gone=900s after=920s";
    check(
        &format!("{GONE} volume v 10G x3 epoch=1 roster=4 promote=p: {copies}"),
        &["v: Promote v/a1 p (Asked)"],
    );
    check(
        &format!("{GONE} volume v 10G x3 epoch=1 roster=4 promote=p/b1: {copies}"),
        &["v: Promote v/b1 p (Asked)"],
    );
}

#[test]
fn a_promotion_is_done_once() {
    check(
        &format!("{GONE} volume v 10G x2 epoch=1 promote=p promoted=p: a1 faulted, c1 gone=1s"),
        &["v waits: NoHealthyCopy [c1]"],
    );
}

#[test]
fn a_copy_that_may_only_be_silent_is_not_given_up() {
    check(
        "node a; node c unknown; pool a1 c1; volume v 10G x2 epoch=1 promote=p: a1 faulted, c1",
        &[],
    );
}

#[test]
fn nothing_is_promoted_while_a_good_copy_is_there() {
    check(
        "node a b; pool a1 b1; volume v 10G x2 epoch=1 promote=p: a1, b1 faulted",
        &["v: GrantRebuild v/b1 (Degraded 1 2)"],
    );
}

#[test]
fn a_chosen_copy_that_cannot_be_read_is_waited_for() {
    check(
        &format!("{GONE} volume v 10G x2 epoch=1 promote=p/c1: a1 faulted, c1 gone=1s after=2s"),
        &["v waits: NoHealthyCopy [c1]"],
    );
}

/// OP-1: after the promotion the others are rebuilt from the promoted copy.
#[test]
fn a_promoted_volume_comes_back_to_full_redundancy() {
    let lab = settled(&format!(
        "{GONE} volume v 10G x2 epoch=1 roster=2 promote=p: \
         a1 faulted roster=1, c1 gone=1s after=2s"
    ));
    crate::check_lines(
        &lab.log,
        &[
            "v: Promote v/a1 p (Asked)",
            "v: PlaceReplica v/b1 (Degraded 1 2)",
            "v: ConfirmReplicas [v/b1] (Observed)",
            "v: GrantRebuild v/b1 (Degraded 1 2)",
            "v: IssueTarget a a 3 (NeededFor(Repair))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: EndRebuild v/b1 (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
            "v: DropReplica v/c1 (Surplus 2)",
        ],
        "a promotion",
    );
}

/// OP-1, HA-3: the copies that were given up cannot fence an older target: it must be gone where
/// its node can be told, before a new one starts.
#[test]
fn after_a_promotion_a_target_starts_when_the_older_ones_are_gone() {
    let volume = "volume v 10G x2 publish=h on=a fencing epoch=3 roster=2 promoted=p";
    let old = "tombstone b: target v@1 there";
    check(
        &format!("node a b; pool a1 b1; host h; {volume}: a1, b1 faulted; {old}"),
        &["v: GrantRebuild v/b1 (Degraded 1 2)", "v waits: TombstoneDone b Target v 1"],
    );
    check(
        &format!(
            "node a; node b dead gone=1s; pool a1 b1; host h; {volume}: a1, b1 faulted; {old}"
        ),
        &["v: StartTarget (Observed)"],
    );
    check(
        &format!("node a b; pool a1 b1; host h; {volume}: a1, b1 faulted"),
        &["v: StartTarget (Observed)"],
    );
}
