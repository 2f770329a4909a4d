//! Hosts in and out.
//!
//! A publish is an attempt with a deadline: it ends published, or withdrawn with its reason, and
//! only a new attempt tries again. A host is out when it says so and the target has closed its
//! sessions; of a host that cannot say so, a person decides.

use alloc::{collections::BTreeSet, string::ToString, vec::Vec};

use model::{
    Access, HostId, HostStage, Liveness, Observed, PathHealth, Publication, ShareStage,
    TargetStage, Volume, Wait,
};

use super::{Look, target};
use crate::{Action, Why, World};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    attempt(look, waits).or_else(|| leave(look, waits)).or_else(|| enter(look))
}

/// The hosts that shall have the volume now.
pub(crate) fn wanted(volume: &Volume) -> BTreeSet<HostId> {
    if let Some(share) = &volume.layout.share {
        let ours = share.stage != ShareStage::Fencing;
        return ours.then_some(share.server).into_iter().collect();
    }
    let Some(publish) = &volume.spec.publish else { return BTreeSet::new() };
    match volume.layout.publication {
        Publication::Pending { attempt } | Publication::Published { attempt }
            if attempt == publish.attempt =>
        {
            publish.hosts.clone()
        }
        _ => BTreeSet::new(),
    }
}

/// How far it came by its deadline, for who must look further.
fn held_up(volume: &Volume) -> &'static str {
    match volume.layout.target.as_ref().map(|target| target.stage) {
        Some(TargetStage::Fencing) => "not every replica admitted the target by the deadline",
        Some(TargetStage::Starting) => "the target did not serve by the deadline",
        _ => "no host had a live path by the deadline",
    }
}

fn attempt(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let layout = &look.volume.layout;
    let Some(publish) = &look.volume.spec.publish else {
        let over = layout.publication != Publication::None && layout.hosts.is_empty();
        return over.then_some((Action::EndPublication, Why::Asked));
    };
    let attempt = publish.attempt;
    if layout.publication.attempt() != Some(attempt) {
        return Some((Action::AcceptPublish { attempt }, Why::Asked));
    }
    if !matches!(layout.publication, Publication::Pending { .. }) {
        return None;
    }
    let live = |host: &HostId| has_live_path(look, *host);
    if publish.hosts.iter().all(live) {
        return Some((Action::FinishPublish { attempt }, Why::Observed));
    }
    if look.world.now >= publish.deadline {
        if publish.hosts.iter().any(live) {
            return Some((Action::FinishPublish { attempt }, Why::Deadline));
        }
        let reason = waits.first().map_or_else(
            || held_up(look.volume).to_string(),
            |wait| alloc::format!("not published by the deadline: {wait}"),
        );
        return Some((Action::WithdrawPublish { attempt, reason }, Why::Deadline));
    }
    // A target that fails before it ever served fails the attempt: it is not retried behind the
    // user's back. Later losses are switchovers.
    if let Some(target) = look.target().filter(|target| target.stage < TargetStage::Serving)
        && layout.switchover.is_none()
        && let Some(cause) = target::loss(look, target)
    {
        let reason = target::failure(look, target).unwrap_or_else(|| cause.to_string());
        return Some((Action::WithdrawPublish { attempt, reason }, Why::Switchover(cause)));
    }
    waits.push(Wait::Attempt { until: publish.deadline });
    None
}

/// Whether the host has a live path to the target that the layout names.
pub(super) fn has_live_path(look: &Look<'_>, host: HostId) -> bool {
    let serving = look.target().filter(|target| target.stage == TargetStage::Serving);
    let Some(target) = serving else { return false };
    if look.volume.layout.hosts.get(&host) != Some(&HostStage::Admitted) {
        return false;
    }
    host_paths(look, host).is_some_and(|mut paths| {
        paths.any(|path| path.epoch == target.epoch && path.health == PathHealth::Live)
    })
}

/// The paths of this volume that a living host reports.
pub(super) fn host_paths<'a>(
    look: &Look<'a>,
    host: HostId,
) -> Option<impl Iterator<Item = &'a model::PathSeen> + use<'a>> {
    let view = look.world.hosts.get(&host).filter(|view| view.liveness == Liveness::Alive)?;
    let inventory = view.inventory.as_ref()?;
    Some(inventory.paths.get(&look.volume.meta.id).into_iter().flatten())
}

fn enter(look: &Look<'_>) -> Option<(Action, Why)> {
    let hosts = &look.volume.layout.hosts;
    let newcomer = wanted(look.volume).into_iter().find(|host| !hosts.contains_key(host))?;
    let free = match look.volume.spec.access {
        // The old host's sessions are closed and drained before another one is let in.
        Access::Exclusive => hosts.is_empty(),
        Access::Many => true,
    };
    free.then_some((Action::AdmitHost { host: newcomer }, Why::Asked))
}

fn leave(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let wanted = wanted(look.volume);
    for (host, stage) in &look.volume.layout.hosts {
        match stage {
            HostStage::Admitted if !wanted.contains(host) => {
                return Some((Action::ExpelHost { host: *host }, Why::Asked));
            }
            HostStage::Admitted => {}
            HostStage::Leaving => match still_in(look, *host) {
                None => return Some((Action::ReleaseHost { host: *host }, Why::Observed)),
                Some(wait) => waits.push(wait),
            },
        }
    }
    None
}

/// What keeps a leaving host from being out.
fn still_in(look: &Look<'_>, host: HostId) -> Option<Wait> {
    has_not_left(look.world, look.volume, host).or_else(|| has_sessions(look, host))
}

fn has_not_left(world: &World, volume: &Volume, host: HostId) -> Option<Wait> {
    let liveness = world.hosts.get(&host).map(|view| view.liveness);
    // A share's server is our own: if it is dead, closing its sessions is all there is to do.
    let ours = volume.spec.share.is_some() || volume.layout.share.is_some();
    if volume.spec.severed.contains(&host) || (ours && liveness == Some(Liveness::Dead)) {
        return None;
    }
    match world.host_seen(host, volume.meta.revision) {
        Observed::Absent => None,
        Observed::Present(seen) => seen
            .paths
            .get(&volume.meta.id)
            .is_some_and(|paths| !paths.is_empty())
            .then_some(Wait::HostLeaves { host }),
        Observed::Unknown if liveness == Some(Liveness::Dead) => Some(Wait::HostSilent { host }),
        Observed::Unknown => Some(Wait::HostLeaves { host }),
    }
}

fn has_sessions(look: &Look<'_>, host: HostId) -> Option<Wait> {
    let target = look.target()?;
    if target.stage == TargetStage::Fencing {
        // It is in no config yet, and whatever was before it can change nothing any more.
        return None;
    }
    let told = look.world.generation(target.node) >= look.volume.meta.revision;
    match look.world.target_seen(look.volume, target) {
        Observed::Absent => None,
        Observed::Present(seen) if told && !seen.hosts.contains(&host) => None,
        Observed::Present(_) | Observed::Unknown => Some(Wait::SessionsClose { host }),
    }
}
