//! The rules of a pool.

use model::Subject;

use crate::{check_lines, check_plans, settled};

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    check_plans(text, |subject| matches!(subject, Subject::Pool(_)), expect);
}

#[test]
fn a_pool_is_confirmed_when_it_is_seen_online() {
    check("node a; pool a1 creating", &["a1: ConfirmPool (Observed)"]);
    check("node a; pool a1 creating unseen", &["a1 waits: PoolMade a1 a"]);
    check("node a; pool a1 creating importing", &["a1 waits: PoolMade a1 a"]);
    check("node a dead; pool a1 creating", &["a1 waits: PoolMade a1 a"]);
    check("node a; pool a1 missing", &[]);
}

#[test]
fn a_pool_is_deleted_when_it_is_empty() {
    check("node a; pool a1 deleting", &["a1: DeletePool (Asked)"]);
    check("node a; pool a1 deleting; volume v 1G x1: a1", &["a1 waits: NodeEmptied a"]);
    let lab = settled("node a; pool a1 deleting; tombstone a: replica v/a1");
    check_lines(
        &lab.log,
        &[
            "a: ClearTombstones [Replica v/a1, a1] (Observed)",
            "a1: DeletePool (Asked)",
            "a: ClearTombstones [Pool a1] (Observed)",
        ],
        "a deleted pool",
    );
    check_lines(&lab.waits(), &[], "a deleted pool");
}

/// OP-2: hardware that will never return is forgotten with its node or alone.
#[test]
fn a_forgotten_pool_goes_when_no_replica_is_in_it() {
    check("node a; pool a1 forgotten", &["a1: ForgetPool (Asked)"]);
    check("node a forgotten; pool a1", &["a1: ForgetPool (Asked)"]);
    check(
        "node a b; pool a1 forgotten; pool b1; volume v 1G x2: a1, b1",
        &["a1 waits: NodeEmptied a"],
    );
    let lab = settled("node a b c; pool a1 forgotten; pool b1 c1; volume v 1G x2: a1, b1");
    // Its engine still shows what nobody will ever remove.
    check_lines(
        &lab.waits(),
        &["a waits: OrphanUnproven v/a1 \"its pool is in no record\""],
        "a forgotten pool",
    );
    assert!(!lab.world.pools.contains_key(&lab.names.pool("a1")));
}
