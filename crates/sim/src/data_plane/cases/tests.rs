//! Every case is a test of its name.

use super::CASES;

macro_rules! cases {
    ($($(#[$meta:meta])* fn $name:ident();)*) => {
        $(
            $(#[$meta])*
            fn $name() {
                let case = CASES.iter().find(|case| case.name == stringify!($name)).unwrap();
                assert_eq!(case.run(false).failure, None);
            }
        )*

        #[test]
        fn every_case_is_a_test() {
            let tests = [$(stringify!($name)),*];
            let cases: Vec<_> = CASES.iter().map(|case| case.name).collect();
            assert_eq!(cases, tests);
        }
    };
}

cases! {
    /// M-25: the connection of a replica drops and returns, and what was sent is sent again.
    #[test]
    fn a_connection_lost_in_the_middle_of_writes_is_found_again();
    /// ST-5: it is excluded in the store before anything it lacks is acknowledged.
    #[test]
    fn a_replica_that_is_cut_off_is_excluded_and_comes_back_for_a_part();
    /// M-09: a disk stalls; what it ends too late changes nothing.
    #[test]
    fn a_disk_that_stalls_is_excluded_and_ends_its_writes_too_late();
    /// RS-2: the successor finds the dirty regions on the replicas.
    #[test]
    fn a_target_killed_under_load_leaves_only_dirty_regions_to_copy();
    /// A row of the failure matrix: a replica's power.
    #[test]
    fn a_replica_without_power_gets_back_what_it_had_not_flushed();
    /// A row of the failure matrix: everybody's power, and a host that lives on.
    #[test]
    fn every_node_without_power_makes_the_first_flush_fail();
    /// A row of the failure matrix: the store is needed only for changes.
    #[test]
    fn a_target_cut_off_from_the_store_alone_goes_on();
    /// ST-5, HA-9: nothing is acknowledged that could not be recorded.
    #[test]
    fn a_target_cut_off_from_the_store_and_a_replica_acknowledges_nothing();
    /// M-26, HA-9: the host sees both targets all the while.
    #[test]
    fn an_old_target_that_is_isolated_reads_and_writes_nothing();
    /// M-25, RS-1: commands of the dead process may still be in a replica's socket.
    #[test]
    fn an_engine_killed_and_started_at_once_has_every_write();
    /// A row of the failure matrix: a slow store.
    #[test]
    fn a_slow_store_during_a_fault_is_only_slow();
    /// M-09: a sync that failed is never tried again as a success.
    #[test]
    fn a_sync_that_fails_excludes_the_replica();
    /// M-08: one pool is full.
    #[test]
    fn a_full_pool_degrades_the_volume();
    /// M-08: every pool is full.
    #[test]
    fn every_pool_full_is_told_to_the_host();
    /// M-05: there is another one to copy from.
    #[test]
    fn a_source_that_fails_during_a_rebuild_is_replaced();
    /// A row of the failure matrix: the bitmap is exact.
    #[test]
    fn a_destination_that_fails_during_a_rebuild_begins_where_it_was();
    /// M-02: both come back and count only when they have everything.
    #[test]
    fn two_of_three_nodes_are_away_while_one_goes_on();
    /// M-04: the next target knows what was not copied.
    #[test]
    fn a_target_that_dies_during_a_rebuild_leaves_its_map();
    /// M-06: the host holds both paths while they move: the row of the failure matrix on ANA.
    #[test]
    fn a_target_that_moves_again_and_again_reads_what_was_written();
    /// A row of the failure matrix: a snapshot is taken everywhere or nowhere.
    #[test]
    fn a_snapshot_during_a_fault_is_whole_or_nowhere();
    /// RC-4: it has every snapshot before it counts.
    #[test]
    fn a_replica_that_was_away_for_snapshots_gets_them_on_its_return();
    /// RC-4: what was brought stays, the rest is brought by the next target.
    #[test]
    fn a_target_that_dies_while_a_snapshot_is_brought_leaves_it_to_the_next();
    /// M-03: it waits for its turn, and a part stays a part.
    #[test]
    fn a_replica_that_returns_while_no_copy_may_begin_comes_back_for_a_part();
    /// M-05: nothing is served before the source is back.
    #[test]
    fn a_source_that_times_out_is_waited_for_and_no_half_copied_replica_is_chosen();
    /// M-08: each has an answer, and deleting always works.
    #[test]
    fn full_pools_answer_writes_snapshots_and_copies_and_deletion_frees_them();
    /// M-10: its host still reaches it, and reads nothing old.
    #[test]
    fn a_target_that_sees_one_replica_of_three_and_no_store_stops_by_itself();
    /// M-24: the target is there and finds another instance.
    #[test]
    fn a_disk_that_was_swapped_is_no_healthy_copy();
    /// M-24: the record still calls it healthy.
    #[test]
    fn a_swapped_disk_that_a_successor_finds_is_no_healthy_copy();
    /// M-29: it comes back to the target that it left.
    #[test]
    fn a_disk_set_back_under_a_target_is_copied_whole();
    /// M-29: the record still calls it healthy.
    #[test]
    fn a_disk_set_back_that_a_successor_finds_is_copied_whole();
    /// A row of the failure matrix: the other one's own dirty regions are copied.
    #[test]
    fn a_successor_that_reaches_one_of_two_makes_the_other_equal_on_its_return();
    /// A row of the failure matrix: merges.
    #[test]
    fn a_crash_in_the_middle_of_a_merge_changes_nothing_that_can_be_read();
    /// A row of the failure matrix: checkpoints.
    #[test]
    fn a_crash_in_the_middle_of_a_checkpoint_changes_nothing_that_can_be_read();
    /// A row of the failure matrix: growth.
    #[test]
    fn a_crash_in_the_middle_of_growing_leaves_the_pool_as_it_was_or_larger();
    /// A row of the failure matrix: superblocks.
    #[test]
    fn a_torn_superblock_is_replaced_by_another();
    /// M-01: the replicas know better than the store.
    #[test]
    fn a_record_that_was_set_back_is_judged_by_the_replicas();
}
