//! Disks that are set back: an image of one is taken at some time, and put in its place at another.

use mirror::StoreRequest;

use super::{
    step::Action,
    world::{Store, World, replica_id},
};

impl World {
    pub(super) fn take_image(&mut self, site: usize, is_cached: bool) {
        let image = self.sites[site].disk.image(is_cached);
        self.sites[site].image = Some(Box::new(image));
    }

    /// A disk may be set back while another replica holds what it loses: with a single one nobody
    /// could tell.
    pub(super) fn images(&self, site: usize, actions: &mut Vec<Action>) {
        let state = &self.sites[site];
        if state.image.is_none() {
            actions.push(Action::Image { site, is_cached: true });
            if state.disk.now != state.disk.durable {
                actions.push(Action::Image { site, is_cached: false });
            }
            return;
        }
        let is_sound = |other: usize| {
            other != site
                && self.sites[other].set_back.is_none()
                && self.record.is_healthy(replica_id(other))
        };
        if (0..self.sites.len()).any(is_sound) {
            actions.push(Action::SetBack { site });
        }
    }

    pub(super) fn set_back(&mut self, site: usize) {
        self.left.set_backs -= 1;
        // Also one that is being admitted, if that is on its way to the store.
        let on_their_way = self.targets.iter().filter_map(|target| match &target.store {
            Store::Asked(StoreRequest::Swap(record)) => Some(&**record),
            _ => target.late.as_deref(),
        });
        let records: Vec<_> = on_their_way.chain([&*self.record]).collect();
        let is_counted = records.iter().any(|record| record.is_recorded_healthy(replica_id(site)));
        let state = &mut self.sites[site];
        let Some(image) = state.image.take() else { return };
        state.disk = *image;
        state.doing.clear();
        state.set_back = is_counted.then_some(state.disk.header.flushed);
        state.fenced = state.disk.header.epoch.0;
        self.reimport(site);
    }

    /// Whom the record no longer calls healthy is copied whole before it counts again. And where
    /// only what was set back is left, with all that the record knows of it, nobody can tell.
    pub(super) fn note_set_back(&mut self, is_claim: bool, before: &model::Membership) {
        let healthy: Vec<_> = (0..self.sites.len())
            .filter(|site| self.record.is_recorded_healthy(replica_id(*site)))
            .collect();
        let is_blind = |site: &usize| {
            let had = self.sites[*site].set_back;
            had.is_some_and(|had| had >= before.flushed(replica_id(*site)))
        };
        if is_claim && healthy.iter().all(is_blind) {
            self.is_blind = true;
        }
        // Nothing durable tells of writes that were not flushed: one of several that all restarted
        // may be chosen although it lacks some.
        if is_claim && healthy.iter().any(|site| self.sites[*site].set_back.is_some()) {
            self.lost_power = true;
            self.host.unflushed_gone();
        }
        for site in 0..self.sites.len() {
            if !healthy.contains(&site) && self.sites[site].set_back.is_some() {
                self.sites[site].set_back = None;
            }
        }
    }
}
