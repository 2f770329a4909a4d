//! Believes that a host has left as soon as it was told to.

use model::HostStage;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("releases-hosts-early", "does not wait until a host has left", || {
        idle_volume(|_, volume| {
            let mut hosts = volume.layout.hosts.iter();
            let (host, _) = hosts.find(|(_, stage)| **stage == HostStage::Leaving)?;
            Some(Action::ReleaseHost { host: *host })
        })
    })
}
