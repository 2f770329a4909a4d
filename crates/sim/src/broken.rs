//! Brains that were broken on purpose: they show that the simulator sees.
//!
//! Each bends the plans of the real rules, or tampers with what a real brain hears and says; the
//! production crates have no hook for it. What catches one is never made for it: it is a promise,
//! an oracle or an end that holds for every brain.

mod bend;
mod catch;
mod nodes;
mod tamper;

mod drops_the_last_copy;
mod promotes_by_itself;
mod retires_good_copies;
mod trusts_every_copy;

mod confirms_the_unserved;
mod forgets_the_fence;
mod jumps_a_stage;
mod leaves_hosts_behind;
mod raises_half_an_epoch;
mod starts_unfenced;

mod admits_a_second_host;
mod publishes_the_unserved;
mod releases_hosts_early;
mod retries_failures;

mod clears_tombstones_unseen;
mod deletes_on_absence;
mod deletes_unasked;
mod skips_tombstones;
mod takes_unreadable_for_deleted;

mod exposes_early;
mod finishes_snapshots_early;
mod places_beside_itself;
mod reuses_ids;
mod spends_space_twice;

mod acts_on_a_lost_lease;
mod answers_too_soon;
mod steals_the_guard;

mod hears_once;
mod kills_on_taking_office;
mod tells_hosts_nothing;
mod trusts_stale_inventories;

mod never_rests;
mod omits;
mod revives_the_dead;

#[cfg(test)]
mod tests;

pub use self::{
    catch::{Caught, Sound, catch},
    nodes::{BrokenNode, broken_nodes, catch_node},
};
use crate::NewBrain;

/// A way to be wrong.
pub struct BrokenBrain {
    pub name: String,
    /// What it does wrong, in words for people.
    pub flaw: &'static str,
    make: Box<dyn Fn() -> NewBrain + Send + Sync>,
}

impl BrokenBrain {
    fn new(
        name: impl Into<String>,
        flaw: &'static str,
        make: impl Fn() -> NewBrain + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), flaw, make: Box::new(make) }
    }

    pub fn brain(&self) -> NewBrain {
        (self.make)()
    }
}

impl core::fmt::Debug for BrokenBrain {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.name, self.flaw)
    }
}

/// Every way to be wrong that has a name of its own.
pub fn broken_brains() -> Vec<BrokenBrain> {
    vec![
        drops_the_last_copy::brain(),
        promotes_by_itself::brain(),
        retires_good_copies::brain(),
        trusts_every_copy::brain(),
        confirms_the_unserved::brain(),
        forgets_the_fence::brain(),
        jumps_a_stage::brain(),
        leaves_hosts_behind::brain(),
        raises_half_an_epoch::brain(),
        starts_unfenced::brain(),
        admits_a_second_host::brain(),
        publishes_the_unserved::brain(),
        releases_hosts_early::brain(),
        retries_failures::brain(),
        clears_tombstones_unseen::brain(),
        deletes_on_absence::brain(),
        deletes_unasked::brain(),
        skips_tombstones::brain(),
        takes_unreadable_for_deleted::brain(),
        exposes_early::brain(),
        finishes_snapshots_early::brain(),
        places_beside_itself::brain(),
        reuses_ids::brain(),
        spends_space_twice::brain(),
        acts_on_a_lost_lease::brain(),
        answers_too_soon::brain(),
        steals_the_guard::brain(),
        hears_once::brain(),
        kills_on_taking_office::brain(),
        tells_hosts_nothing::brain(),
        trusts_stale_inventories::brain(),
        never_rests::brain(),
        revives_the_dead::brain(),
    ]
}

/// For each kind of step one that never takes it.
pub fn forgetful_brains() -> Vec<BrokenBrain> {
    plan::Action::KINDS.iter().map(|kind| omits::brain(kind)).collect()
}
