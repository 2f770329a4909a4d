//! Scripts that are kept: each shows a behaviour, or a bug that was found once.

#[cfg(test)]
mod tests;

use crate::{Options, Report, Script, Unreadable, real_brain, run};

/// The seed of a case that was kept without one.
pub const CASE_SEED: u64 = 1;

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub text: &'static str,
}

impl Case {
    pub fn script(&self) -> Result<Script, Unreadable> {
        Script::parse(self.text)
    }

    /// With this seed, or else with its own.
    pub fn run(&self, seed: Option<u64>, options: Options) -> Result<Report, Unreadable> {
        let script = self.script()?;
        let seed = seed.unwrap_or(script.case_seed());
        Ok(run(seed, &script, real_brain(), options))
    }
}

/// Lists every file of `cases/`. `--cases` runs them all, and the tier `sim-cases` does that.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All that are kept.
        pub const fn cases() -> &'static [Case] {
            &[$(Case {
                name: stringify!($name),
                text: include_str!(concat!("../cases/", stringify!($name), ".txt")),
            }),*]
        }
    };
}

cases![
    an_engine_lies_about_membership,
    balance_by_bytes,
    clean_stop_needs_no_resync,
    clones_of_one_image,
    controllers_die_during_a_switchover,
    controllers_die_while_a_volume_is_republished,
    controllers_die_while_paths_are_replaced,
    controllers_die_while_there_is_nowhere_to_go,
    controllers_restart_one_by_one,
    controllers_restart_while_a_volume_is_made,
    cordoned_node_gets_nothing_new,
    created_in_order,
    dead_host_does_not_block_a_switchover,
    deleted_name_is_free_at_once,
    deleted_while_a_peer_is_away,
    deleted_while_a_peer_is_gone_for_ever,
    disk_pulled_and_back,
    drain_is_cancelled,
    drain_keeps_the_last_copy,
    drain_waits_for_the_last_of_a_snapshot,
    drained_node_is_emptied,
    empty_store_destroys_nothing,
    engine_starts_empty,
    every_change_is_an_event,
    flapping_node_moves_a_target_seldom,
    flapping_path_moves_a_target_seldom,
    forced_unpublish_of_a_dead_host,
    forgotten_node_frees_what_waits,
    forgotten_node_returns,
    forgotten_pool_admits_nothing,
    forgotten_pool_with_the_last_copy,
    freed_space_wakes_a_waiting_copy,
    garbled_membership_is_waited_for,
    garbled_node_and_pool_records,
    garbled_record_quarantines_one_volume,
    garbled_volume_holds_its_hardware,
    garbled_volume_keeps_its_snapshots,
    isolated_target_stops_by_itself,
    last_copy_is_never_dropped,
    late_tick_kills_nobody,
    lost_copy_is_replaced,
    lost_copy_returns_in_time,
    lost_lease_ends_a_term,
    node_returns_just_in_time,
    node_returns_just_too_late,
    old_backup,
    old_targets_are_buried,
    only_what_was_deleted_goes,
    orphan_of_a_dead_node,
    partition_splits_host_target_and_controller,
    path_fails_although_the_target_serves,
    paused_leader_is_harmless,
    pool_deleted_while_its_node_is_away,
    pool_in_use_is_not_deleted,
    process_heard_before_the_store_was_read,
    process_registered_while_the_store_was_away,
    promote_is_refused_while_a_copy_is_whole,
    promoted_after_the_last_copy_is_gone,
    publish_fails_and_leaves_nothing,
    rebuild_called_off_copies_anew,
    rebuild_storm_after_a_rack_returns,
    recovery_with_loss_accepted,
    requests_conflict_or_repeat,
    scale_up_keeps_the_zones,
    share_ends,
    share_is_isolated_and_fenced,
    share_moves_to_another_host,
    share_waits_for_a_host,
    silent_host_does_not_block_a_repair,
    silent_host_leaves_during_a_switchover,
    snapshot_deleted_while_a_peer_is_away,
    snapshot_taken_back_is_not_ready,
    space_is_spent_once,
    stale_copies_are_not_promoted_by_an_old_record,
    stale_copies_are_not_promoted_by_recovery,
    store_away_and_a_copy_fails,
    store_away_and_nothing_changes,
    store_is_wiped,
    store_loses_a_deletion,
    store_loses_a_switchover,
    store_loses_its_last_commits,
    successor_dies_too,
    swapped_disk_is_not_a_healthy_copy,
    swapped_disk_of_a_quiet_volume,
    switchover_with_nowhere_to_go_leaves_no_target,
    target_node_dies,
    target_process_dies,
    target_waits_for_a_restarted_engine,
    thin_pool_fills,
    two_of_three_away_for_long,
    unclean_stop_is_resynced,
];
