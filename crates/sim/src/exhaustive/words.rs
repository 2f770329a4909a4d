//! What happens in a small world, in the words of a trace and of a script.

use mirror::{Request, StoreAnswer, StoreRequest};

use super::{
    disk::{Ailment, Version},
    step::Action,
    world::{Store, World, name, site_of},
};

impl World {
    /// What an action is, for a person who reads a trace.
    pub(super) fn describe(&self, action: Action) -> String {
        let wire_name = |index: usize| {
            let wire = &self.wires[index];
            format!("T{}/{}#{}", wire.target + 1, name(wire.site), wire.session)
        };
        match action {
            Action::ToReplica { wire: index, lane } => {
                let next = self.wires[index].lanes[lane].front();
                let what = next.map_or_else(|| "close".into(), |(_, request)| word(request));
                format!("{} hears: {what}", wire_name(index))
            }
            Action::ToTarget(index) => {
                let next = self.wires[index].answers.front();
                let what = next.map_or_else(|| "closed".into(), |(_, answer)| short(answer));
                format!("{} answers: {what}", wire_name(index))
            }
            Action::Disk { site, at } => {
                format!("the disk of {} ends {:?}", name(site), self.sites[site].doing[at].2)
            }
            Action::Store(target) => {
                let what = match &self.targets[target].store {
                    Store::Idle => "nothing".into(),
                    Store::Asked(StoreRequest::Read) => "is read".into(),
                    Store::Asked(StoreRequest::Swap(record)) => {
                        format!("is written: {}", describe(record))
                    }
                    Store::Answer(answer) => match &**answer {
                        StoreAnswer::Record(record) => format!("says {}", describe(record)),
                        other => format!("says {other:?}"),
                    },
                };
                format!("the record, for T{}, {what}", target + 1)
            }
            Action::Image { site, is_cached } => {
                let what = if is_cached { "with its cache" } else { "without its cache" };
                format!("an image of {} is taken, {what}", name(site))
            }
            Action::SetBack { site } => format!("{} is set back to its image", name(site)),
            Action::Restart { site, .. } => format!("{} restarts", name(site)),
            Action::Power { site, choice } => {
                let left = self.sites[site].disk.after_power_loss().swap_remove(choice);
                format!("{} loses power, left {left:?}", name(site))
            }
            Action::Ail { site, ailment } => match ailment {
                Ailment::Full => format!("{} is full", name(site)),
                Ailment::Sync => format!("{} cannot sync", name(site)),
                Ailment::Media => format!("{} cannot be read", name(site)),
            },
            Action::Cut(index) => format!("{} is cut", wire_name(index)),
            Action::Write { target, block } => {
                let version = self.host.blocks[block].issued + 1;
                format!("the host writes block {block} v{version} through T{}", target + 1)
            }
            Action::Resend { target, block } => {
                format!("the host writes block {block} again through T{}", target + 1)
            }
            Action::Read { target, block } => {
                format!("the host reads block {block} through T{}", target + 1)
            }
            Action::Flush(target) => format!("the host flushes through T{}", target + 1),
            Action::Crash(target) => format!("T{} dies", target + 1),
            Action::Snapshot => "a snapshot is wanted".into(),
            Action::Switch => format!("T{} is started", self.targets.len() + 1),
            other => format!("{other:?}"),
        }
    }
}

fn short(answer: &mirror::Answer<Version>) -> String {
    match answer {
        mirror::Answer::Fenced(state) => {
            let dirty: Vec<_> = state.header.dirty.iter().collect();
            let (roster, intact, flushed) =
                (state.header.roster, state.intact, state.header.flushed);
            let mark = format!("{}.{}", flushed.epoch, flushed.number);
            format!("fenced, roster {roster}, dirty {dirty:?}, intact {intact}, flushed {mark}")
        }
        other => format!("{other:?}"),
    }
}

fn describe(record: &model::Membership) -> String {
    let healthy: String = record
        .children
        .iter()
        .filter(|(_, healthy)| **healthy)
        .map(|(id, _)| name(site_of(*id)))
        .collect();
    let source = record.resync_source.map(|id| name(site_of(id)));
    format!(
        "epoch {} roster {} healthy {healthy} clean {} source {source:?} lost {}",
        record.epoch, record.roster, record.clean, record.unflushed_lost
    )
}

/// A short word for a request, for traces.
pub(super) fn word(request: &Request<Version>) -> String {
    match request {
        Request::Fence { epoch } => format!("fence {epoch}"),
        Request::Ping => "ping".into(),
        Request::Read { extent } => format!("read block {}", extent.start),
        Request::Fetch { extent, image: None, .. } => format!("fetch block {}", extent.start),
        Request::Fetch { extent, .. } => format!("fetch block {} of a snapshot", extent.start),
        Request::Write { extent, data, durability } => {
            format!("write block {} v{data} ({durability:?})", extent.start)
        }
        Request::Zero { extent, .. } => format!("zero block {}", extent.start),
        Request::Resync(piece) => format!("resync block {} v{:?}", piece.extent.start, piece.data),
        Request::Flush { mark: None } => "flush".into(),
        Request::Flush { mark: Some(mark) } => format!("flush {}.{}", mark.epoch, mark.number),
        Request::Roster { roster, members, absent, intact, .. } => {
            let healthy = members.values().filter(|healthy| **healthy).count();
            let absent: Vec<_> = absent
                .iter()
                .map(|(id, a)| {
                    let regions: Vec<_> = a.regions.iter().collect();
                    format!("{} base {} lacks {regions:?}", name(site_of(*id)), a.base)
                })
                .collect();
            format!("roster {roster}, {healthy} healthy, absent {absent:?}, intact {intact}")
        }
        Request::Absent { absent } => format!("absent {}", absent.len()),
        Request::Clean { regions, .. } => format!("clean {regions:?}"),
        Request::Copied { regions, .. } => format!("copied {regions:?}"),
        Request::Snapshot(frozen) => format!("snapshot of roster {}", frozen.roster),
        Request::Images => "images".into(),
        Request::SnapAbort { .. } => "abort snapshot".into(),
        Request::Stop => "stop".into(),
    }
}
