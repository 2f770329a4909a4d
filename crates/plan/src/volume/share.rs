//! A volume exported over NFS: one server at a time, placed by us.

use alloc::vec::Vec;

use model::{
    Extra, HostId, HostStage, Liveness, Observed, ShareLayout, ShareSeen, ShareStage, Wait,
    limits::SHARE_STAGE_MAX,
};

use super::{Look, publish};
use crate::{Action, Why, world::HostView};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let wished = look.volume.spec.share.as_ref().is_some_and(|share| !share.consumers.is_empty());
    match &look.volume.layout.share {
        None if wished => place(look, None, Why::Asked, waits),
        None => None,
        Some(share) if !wished => end(look, share, waits),
        Some(share) => serve(look, share, waits),
    }
}

/// Whether the host's machine is to be emptied.
fn is_drained(look: &Look<'_>, host: &HostView) -> bool {
    let node = host.record.spec.node.and_then(|node| look.world.node(node));
    node.is_some_and(|node| node.record.spec.draining)
}

/// Another host could take the share: without one a drain would only end it.
fn has_spare(look: &Look<'_>, server: HostId) -> bool {
    look.world.hosts.iter().any(|(id, view)| {
        *id != server && view.liveness == Liveness::Alive && !is_drained(look, view)
    })
}

/// The only step that decides who owns the share. Being served at all comes before drains.
fn place(
    look: &Look<'_>,
    old: Option<&ShareLayout>,
    why: Why,
    waits: &mut Vec<Wait>,
) -> Option<(Action, Why)> {
    let old_server = old.map(|old| old.server);
    let alive = look.world.hosts.iter().filter(|(_, view)| view.liveness == Liveness::Alive);
    let best = alive.min_by_key(|(id, view)| {
        let local = view.record.spec.node.is_some_and(|node| look.has_copy_on(node));
        let count = look.world.index.volumes_of_host(**id).count();
        (is_drained(look, view), Some(**id) == old_server, !local, count, **id)
    });
    let Some((server, _)) = best else {
        waits.push(Wait::NowhereToServe);
        return None;
    };
    let share = ShareLayout {
        server: *server,
        epoch: old.map_or(1, |old| old.epoch + 1),
        stage: ShareStage::Fencing,
        since: look.world.now,
        endpoint: None,
        extra: Extra::new(),
    };
    Some((Action::PlaceShare { share }, why))
}

fn serve(look: &Look<'_>, share: &ShareLayout, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let server = look.world.hosts.get(&share.server);
    if look.world.host_liveness(share.server) == Liveness::Dead {
        let reason = "the share's server is gone".into();
        return place(look, Some(share), Why::Failed { reason }, waits);
    }
    let seen = seen(look, share);
    if let Some(reason) = seen.and_then(|seen| seen.failed.clone()) {
        return place(look, Some(share), Why::Failed { reason }, waits);
    }
    let drained = server.is_some_and(|view| is_drained(look, view));
    let next = match share.stage {
        ShareStage::Fencing => {
            let others = look.volume.layout.hosts.keys().any(|host| *host != share.server);
            (!others).then_some(ShareStage::Attaching)
        }
        ShareStage::Attaching => {
            publish::has_live_path(look, share.server).then_some(ShareStage::Mounting)
        }
        ShareStage::Mounting | ShareStage::Starting | ShareStage::Grace => {
            seen.map(|seen| seen.stage).filter(|stage| *stage > share.stage)
        }
        ShareStage::Serving if drained && has_spare(look, share.server) => {
            Some(ShareStage::Draining)
        }
        ShareStage::Serving if drained => {
            waits.push(Wait::NowhereToServe);
            None
        }
        ShareStage::Serving => None,
        ShareStage::Draining | ShareStage::Stopping => {
            if stopped(look, share.server) {
                return place(look, Some(share), Why::Observed, waits);
            }
            None
        }
    };
    if let Some(stage) = next {
        return Some((advance(look, share, stage, seen), Why::Observed));
    }
    let until = share.since + SHARE_STAGE_MAX;
    match share.stage {
        ShareStage::Mounting | ShareStage::Starting | ShareStage::Grace => {
            if look.world.now >= until {
                return place(look, Some(share), Why::Deadline, waits);
            }
            waits.push(Wait::ShareStage { host: share.server, until });
        }
        _ => {}
    }
    None
}

fn advance(
    look: &Look<'_>,
    share: &ShareLayout,
    stage: ShareStage,
    seen: Option<&ShareSeen>,
) -> Action {
    let reachable = matches!(stage, ShareStage::Grace | ShareStage::Serving);
    let endpoint = seen.filter(|_| reachable).and_then(|seen| seen.endpoint.clone());
    let share = ShareLayout { stage, since: look.world.now, endpoint, ..share.clone() };
    Action::AdvanceShare { share }
}

fn end(look: &Look<'_>, share: &ShareLayout, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    if share.stage != ShareStage::Stopping {
        return Some((advance(look, share, ShareStage::Stopping, None), Why::Asked));
    }
    let dead = look.world.host_liveness(share.server) == Liveness::Dead;
    if dead || stopped(look, share.server) {
        return Some((Action::EndShare, Why::Observed));
    }
    if look.volume.layout.hosts.get(&share.server) == Some(&HostStage::Admitted) {
        waits.push(Wait::HostLeaves { host: share.server });
    }
    None
}

fn seen<'a>(look: &Look<'a>, share: &ShareLayout) -> Option<&'a ShareSeen> {
    let view = look.world.hosts.get(&share.server)?;
    let inventory = view.inventory.as_ref().filter(|_| view.liveness == Liveness::Alive)?;
    inventory.shares.get(&look.volume.meta.id).filter(|seen| seen.epoch == share.epoch)
}

fn stopped(look: &Look<'_>, server: HostId) -> bool {
    match look.world.host_seen(server, look.volume.meta.revision) {
        Observed::Absent => true,
        Observed::Present(seen) => !seen.shares.contains_key(&look.volume.meta.id),
        Observed::Unknown => false,
    }
}
