//! A control plane of a few lines: one target at a time, a new epoch for each.

use super::world::{Event, NODES, World};

#[derive(Debug, Default)]
pub(super) struct Control {
    /// The newest epoch that was issued.
    pub(super) current: u64,
    /// Until then the newest target is being started.
    starting_until: u64,
    /// Where somebody wants it served from, and until when the old one may stop by itself.
    pub(super) wish: Option<(usize, Option<u64>)>,
    /// As many are being copied to elsewhere as may be.
    pub(super) no_rebuild_until: u64,
}

impl World {
    pub(super) fn controls(&mut self) {
        let delay = self.random.between(50_000, 400_000);
        self.after(delay, Event::Control);
        self.control_snapshots();
        if self.now < self.store.down_until || self.now < self.control.starting_until {
            return;
        }
        let site = self.targets.get(&self.control.current);
        let is_alive = site.is_some_and(|site| !site.is_over);
        let is_stuck = site
            .is_some_and(|site| !site.machine.is_serving() && self.now - site.since > 12_000_000);
        match self.control.wish {
            Some((node, None)) if is_alive => {
                let wait = self.random.between(1, 4_000_000);
                self.control.wish = Some((node, Some(self.now + wait)));
                self.note(|| format!("the target is to move to node {node}"));
                // Some move without asking the old one: it is found to be cut off.
                if self.random.chance(600) {
                    self.configure(self.control.current, |item| item.serve = false);
                }
            }
            Some((node, until)) if !is_alive || until.is_none_or(|until| until <= self.now) => {
                self.control.wish = None;
                self.switch(node);
            }
            None if !is_alive || is_stuck => {
                let node = self.random.below(u64::try_from(NODES).unwrap_or(1));
                self.switch(usize::try_from(node).unwrap_or(0));
            }
            _ => {}
        }
    }

    pub(super) const fn may_rebuild(&self) -> bool {
        self.now >= self.control.no_rebuild_until
    }

    pub(super) fn tell_rebuild(&mut self) {
        let rebuild = self.may_rebuild();
        self.configure(self.control.current, |item| {
            item.children.iter_mut().for_each(|child| child.rebuild = rebuild);
        });
    }

    fn switch(&mut self, wanted: usize) {
        let up: Vec<usize> = (0..NODES).filter(|node| self.nodes[*node].is_up()).collect();
        let any = self.random.pick(&up).copied();
        let Some(node) = up.iter().copied().find(|node| *node == wanted).or(any) else { return };
        let before = self.store.record.clone();
        let epoch = self.store.raise();
        self.recorded(&before);
        self.control.current = epoch;
        self.note(|| format!("epoch {epoch} is for node {node}"));
        for replica in 0..self.copies {
            if self.random.chance(700) {
                let delay = self.latency();
                self.after(delay, Event::Admit { node: replica, epoch });
            }
        }
        let delay = self.random.between(1_000, 300_000);
        self.control.starting_until = self.now + delay + 1_000;
        let process = self.nodes[node].process;
        self.after(delay, Event::StartTarget { node, process, epoch });
    }

    /// A config reaches a replica.
    pub(super) fn admit(&mut self, node: usize, epoch: u64) {
        let mut out = Vec::new();
        let Some(replica) = self.nodes[node].replica() else { return };
        replica.admit(model::Epoch(epoch), &mut out);
        self.replica_says(node, out);
    }
}
