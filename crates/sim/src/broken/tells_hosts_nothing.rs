//! Decides about hosts, and tells them nothing.

use reconcile::Effect;

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "tells-hosts-nothing",
        "sends no config to hosts",
        tampered::<TellsHostsNothing>,
    )
}

#[derive(Default)]
struct TellsHostsNothing;

impl Tamper for TellsHostsNothing {
    fn say(&mut self, _: &dyn Brain, mut effects: Vec<Effect>) -> Vec<Effect> {
        effects.retain(|effect| !matches!(effect, Effect::ApplyHost { .. }));
        effects
    }
}
