//! Lets a host into an exclusive volume while another one is in.

use model::Access;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("admits-a-second-host", "admits a host before the last one left", || {
        idle_volume(|_, volume| {
            let publish = volume.spec.publish.as_ref()?;
            let inside = &volume.layout.hosts;
            let newcomer = publish.hosts.iter().find(|host| !inside.contains_key(host))?;
            let occupied = volume.spec.access == Access::Exclusive && !inside.is_empty();
            occupied.then_some(Action::AdmitHost { host: *newcomer })
        })
    })
}
