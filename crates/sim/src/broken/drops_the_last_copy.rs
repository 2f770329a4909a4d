//! Space is dear, and one copy looks like the next.

use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("drops-the-last-copy", "drops the only healthy copy of a volume", || {
        idle_volume(|world, volume| {
            let membership = world.volume(volume.meta.id)?.membership.as_ref()?;
            let mut healthy = membership.healthy();
            let (first, second) = (healthy.next()?, healthy.next());
            second.is_none().then_some(Action::DropReplica { replica: first })
        })
    })
}
