//! Failures by name, each with a host at work all the while, and what must be seen of them.

use super::{Fault, PlannedFault, Report, Rules, Scene, run, run::Failure};
use crate::Kind;

/// A failure of the list of those that are expected, with real data.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    copies: usize,
    /// By milliseconds.
    faults: &'static [(u64, Fault)],
    /// Notices of targets that must have been seen.
    sees: &'static [&'static str],
    /// And those that must not.
    never: &'static [&'static str],
}

/// The seed that cases are run with.
const SEED: u64 = 1;

/// The target is on the first node from the start of the fifth second on.
const AT_FIRST: Fault = Fault::Move { node: 0 };

const fn case(name: &'static str, copies: usize, faults: &'static [(u64, Fault)]) -> Case {
    Case { name, copies, faults, sees: &[], never: &["unflushed lost"] }
}

impl Case {
    const fn sees(mut self, sees: &'static [&'static str]) -> Self {
        self.sees = sees;
        self
    }

    const fn never(mut self, never: &'static [&'static str]) -> Self {
        self.never = never;
        self
    }

    pub fn run(&self, is_traced: bool) -> Report {
        let first = PlannedFault { at: 500, fault: AT_FIRST };
        let rest = self.faults.iter().map(|(at, fault)| PlannedFault { at: *at, fault: *fault });
        let faults = std::iter::once(first).chain(rest).collect();
        let scene = Scene { copies: self.copies, time: 24_000, faults };
        let mut report = run(SEED, &scene, Rules::default(), is_traced);
        let has = |kind: &&&str| report.counts.notices.contains_key(**kind);
        let missing = self.sees.iter().find(|kind| !has(kind));
        let unwanted = self.never.iter().find(has);
        let words = missing.map(|kind| format!("never seen: {kind}"));
        let words = words.or_else(|| unwanted.map(|kind| format!("seen: {kind}")));
        if report.failure.is_none() {
            let (kind, promise) = (Kind::BrokenPromise, "case");
            report.failure = words.map(|words| Failure { kind, promise, words });
        }
        report
    }
}

/// In the order of the matrix, then of the scenarios.
pub const CASES: &[Case] = &[
    case(
        "a_connection_lost_in_the_middle_of_writes_is_found_again",
        2,
        &[(7_000, Fault::Drop { node: 1 }), (7_400, Fault::Drop { node: 1 })],
    )
    .never(&["excluded", "unflushed lost"]),
    case(
        "a_replica_that_is_cut_off_is_excluded_and_comes_back_for_a_part",
        2,
        &[(7_000, Fault::Cut { a: 0, b: 1, lasts: 9_000 })],
    )
    .sees(&["excluded", "returned for a part", "admitted"])
    .never(&["returned for all", "unflushed lost"]),
    case(
        "a_disk_that_stalls_is_excluded_and_ends_its_writes_too_late",
        2,
        &[(7_000, Fault::Stall { node: 1, lasts: 9_000 })],
    )
    .sees(&["excluded", "admitted"]),
    case(
        "a_target_killed_under_load_leaves_only_dirty_regions_to_copy",
        2,
        &[(7_000, Fault::Kill { node: 0, down: 3_000 })],
    )
    .never(&["returned for all", "unflushed lost"]),
    case(
        "a_replica_without_power_gets_back_what_it_had_not_flushed",
        2,
        &[(7_000, Fault::Power { node: 1, down: 1_000 })],
    )
    .sees(&["excluded", "returned for a part", "admitted"]),
    case(
        "every_node_without_power_makes_the_first_flush_fail",
        2,
        &[(7_000, Fault::PowerAll { down: 500 })],
    )
    .sees(&["unflushed lost"])
    .never(&[]),
    case(
        "a_target_cut_off_from_the_store_alone_goes_on",
        2,
        &[(7_000, Fault::StoreCut { node: 0, lasts: 9_000 })],
    )
    .never(&["lost", "self-fenced", "unflushed lost"]),
    case(
        "a_target_cut_off_from_the_store_and_a_replica_acknowledges_nothing",
        2,
        &[
            (7_000, Fault::StoreCut { node: 0, lasts: 12_000 }),
            (7_500, Fault::Power { node: 1, down: 12_000 }),
        ],
    )
    .sees(&["lost"]),
    case(
        "an_old_target_that_is_isolated_reads_and_writes_nothing",
        2,
        &[(7_000, Fault::Isolate { node: 0, lasts: 9_000 }), (7_200, Fault::Move { node: 1 })],
    )
    .sees(&["self-fenced"]),
    case(
        "an_engine_killed_and_started_at_once_has_every_write",
        2,
        &[
            (7_000, Fault::Kill { node: 0, down: 0 }),
            (7_500, Fault::Move { node: 0 }),
            (13_000, Fault::Kill { node: 1, down: 0 }),
        ],
    )
    .sees(&["admitted"]),
    case(
        "a_slow_store_during_a_fault_is_only_slow",
        2,
        &[
            (7_000, Fault::StoreSlow { lasts: 9_000, by: 1_500 }),
            (7_100, Fault::Kill { node: 1, down: 4_000 }),
        ],
    )
    .sees(&["excluded", "admitted"]),
    case(
        "a_sync_that_fails_excludes_the_replica",
        2,
        &[(7_000, Fault::SyncFails { node: 1, lasts: 4_000 })],
    )
    .sees(&["excluded", "admitted"]),
    case("a_full_pool_degrades_the_volume", 2, &[(1_000, Fault::Full { node: 1, lasts: 9_000 })]),
    case("every_pool_full_is_told_to_the_host", 2, &[(1_000, Fault::FullAll { lasts: 9_000 })]),
    case(
        "a_source_that_fails_during_a_rebuild_is_replaced",
        3,
        &[
            (7_000, Fault::Power { node: 2, down: 1_500 }),
            (8_700, Fault::Kill { node: 1, down: 3_000 }),
        ],
    )
    .sees(&["excluded", "admitted"]),
    case(
        "a_destination_that_fails_during_a_rebuild_begins_where_it_was",
        2,
        &[
            (7_000, Fault::Power { node: 1, down: 1_500 }),
            (8_700, Fault::Power { node: 1, down: 1_500 }),
        ],
    )
    .sees(&["excluded", "admitted"]),
    case(
        "two_of_three_nodes_are_away_while_one_goes_on",
        3,
        &[
            (6_000, Fault::Kill { node: 1, down: 9_000 }),
            (6_500, Fault::Power { node: 2, down: 10_000 }),
        ],
    )
    .sees(&["excluded", "admitted"]),
    case(
        "a_target_that_dies_during_a_rebuild_leaves_its_map",
        2,
        &[
            (7_000, Fault::Kill { node: 1, down: 1_000 }),
            (8_200, Fault::Kill { node: 0, down: 500 }),
        ],
    )
    .sees(&["admitted"]),
    case(
        "a_target_that_moves_again_and_again_reads_what_was_written",
        2,
        &[
            (5_000, Fault::Move { node: 1 }),
            (9_000, Fault::Move { node: 2 }),
            (13_000, Fault::Move { node: 0 }),
            (17_000, Fault::Move { node: 1 }),
        ],
    ),
    case(
        "a_snapshot_during_a_fault_is_whole_or_nowhere",
        3,
        &[
            (7_000, Fault::Snapshot),
            (7_001, Fault::Kill { node: 1, down: 1_000 }),
            (12_000, Fault::Snapshot),
        ],
    ),
    case(
        "a_replica_that_was_away_for_snapshots_gets_them_on_its_return",
        2,
        &[
            (7_000, Fault::Kill { node: 1, down: 7_000 }),
            (11_000, Fault::Snapshot),
            (12_500, Fault::Snapshot),
        ],
    )
    .sees(&["excluded", "snapshot brought", "admitted"])
    .never(&["returned for all", "unflushed lost"]),
    case(
        "a_target_that_dies_while_a_snapshot_is_brought_leaves_it_to_the_next",
        2,
        &[
            (6_000, Fault::Kill { node: 1, down: 6_000 }),
            (9_500, Fault::Snapshot),
            (12_600, Fault::Kill { node: 0, down: 500 }),
        ],
    )
    .sees(&["snapshot brought", "admitted"]),
    case(
        "a_replica_that_returns_while_no_copy_may_begin_comes_back_for_a_part",
        2,
        &[
            (6_500, Fault::NoRebuild { lasts: 8_000 }),
            (7_000, Fault::Kill { node: 1, down: 2_500 }),
        ],
    )
    .sees(&["excluded", "returned for a part", "admitted"])
    .never(&["returned for all", "unflushed lost"]),
    case(
        "a_source_that_times_out_is_waited_for_and_no_half_copied_replica_is_chosen",
        2,
        &[
            (5_000, Fault::Move { node: 2 }),
            (9_000, Fault::Power { node: 1, down: 1_000 }),
            (10_250, Fault::Stall { node: 0, lasts: 9_000 }),
            (12_000, Fault::Kill { node: 2, down: 0 }),
        ],
    )
    .sees(&["excluded", "admitted"]),
    case(
        "full_pools_answer_writes_snapshots_and_copies_and_deletion_frees_them",
        2,
        &[
            (4_000, Fault::Snapshot),
            (6_500, Fault::FullAll { lasts: 9_000 }),
            (8_000, Fault::Snapshot),
            (9_000, Fault::Power { node: 1, down: 500 }),
            (12_000, Fault::DeleteSnapshot),
        ],
    ),
    case(
        "a_target_that_sees_one_replica_of_three_and_no_store_stops_by_itself",
        3,
        &[(7_000, Fault::Isolate { node: 0, lasts: 9_000 }), (7_200, Fault::Move { node: 1 })],
    )
    .sees(&["self-fenced", "admitted"]),
    case(
        "a_disk_that_was_swapped_is_no_healthy_copy",
        2,
        &[(7_000, Fault::Swap { node: 1, down: 500 })],
    )
    .sees(&["excluded", "returned for all", "admitted"]),
    case(
        "a_swapped_disk_that_a_successor_finds_is_no_healthy_copy",
        2,
        &[(7_000, Fault::Swap { node: 1, down: 0 }), (7_000, Fault::Kill { node: 0, down: 0 })],
    )
    .sees(&["returned for all", "admitted"]),
    case(
        "a_disk_set_back_under_a_target_is_copied_whole",
        2,
        &[(5_000, Fault::DiskSetBack { node: 1, age: 9_000, down: 500 })],
    )
    .sees(&["excluded", "set back", "returned for all", "admitted"]),
    case(
        "a_disk_set_back_that_a_successor_finds_is_copied_whole",
        2,
        &[
            (5_000, Fault::DiskSetBack { node: 1, age: 9_000, down: 0 }),
            (14_001, Fault::Kill { node: 0, down: 0 }),
        ],
    )
    .sees(&["set back", "returned for all", "admitted"]),
    case(
        "a_successor_that_reaches_one_of_two_makes_the_other_equal_on_its_return",
        2,
        &[(7_000, Fault::Kill { node: 0, down: 6_000 })],
    )
    .sees(&["returned for a part", "admitted"])
    .never(&["returned for all", "unflushed lost"]),
    case(
        "a_crash_in_the_middle_of_a_merge_changes_nothing_that_can_be_read",
        2,
        &[
            (5_000, Fault::Snapshot),
            (8_000, Fault::DeleteSnapshot),
            (8_101, Fault::Power { node: 0, down: 100 }),
            (8_102, Fault::Power { node: 1, down: 100 }),
            (12_000, Fault::Snapshot),
            (15_000, Fault::DeleteSnapshot),
            (15_203, Fault::Power { node: 1, down: 100 }),
        ],
    )
    .never(&[]),
    case(
        "a_crash_in_the_middle_of_a_checkpoint_changes_nothing_that_can_be_read",
        2,
        &[
            (7_000, Fault::Checkpoint { node: 0 }),
            (7_001, Fault::Power { node: 0, down: 100 }),
            (12_000, Fault::Checkpoint { node: 1 }),
            (12_002, Fault::Power { node: 1, down: 100 }),
            (16_000, Fault::Checkpoint { node: 1 }),
            (16_001, Fault::Kill { node: 1, down: 100 }),
        ],
    ),
    case(
        "a_crash_in_the_middle_of_growing_leaves_the_pool_as_it_was_or_larger",
        2,
        &[
            (7_000, Fault::Grow { node: 0 }),
            (7_001, Fault::Power { node: 0, down: 100 }),
            (12_000, Fault::Grow { node: 1 }),
            (12_002, Fault::Power { node: 1, down: 100 }),
            (16_000, Fault::Grow { node: 1 }),
        ],
    ),
    case(
        "a_torn_superblock_is_replaced_by_another",
        2,
        &[
            (7_000, Fault::TornSuperblock { node: 1, down: 100 }),
            (12_000, Fault::TornSuperblock { node: 0, down: 100 }),
            (16_000, Fault::TornSuperblock { node: 1, down: 100 }),
        ],
    ),
    case(
        "a_record_that_was_set_back_is_judged_by_the_replicas",
        2,
        &[(6_000, Fault::Kill { node: 1, down: 5_000 }), (10_000, Fault::SetBack)],
    )
    .sees(&["record older", "admitted"]),
];

#[cfg(test)]
mod tests;
