//! ST-3, OP-2, M-20: records refer only to records that are there.
//!
//! A node or pool that was forgotten keeps its record until no layout names it. A membership record
//! lives and dies with its volume, and calls nothing healthy that the layout does not have.

use alloc::format;

use model::{HostId, Key, NodeId, Volume};

use crate::{Committed, Promise, Records, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("references", "records refer only to records that are there")
        .of_records(check_record)
        .of_commits(check_commit);

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    match key {
        Key::Volume(id) => {
            let volume = records.volumes.get(id);
            let membership = records.memberships.get(id);
            if volume.is_some() != membership.is_some() {
                let which = if volume.is_some() { "no membership" } else { "a membership only" };
                report.broken(key.clone(), format!("it has {which}"));
            }
            if let Some(volume) = volume {
                check_layout(records, key, volume, report);
            }
            let (Some(volume), Some(membership)) = (volume, membership) else { return };
            for (child, healthy) in &membership.children {
                if *healthy && volume.replica(*child).is_none() {
                    let words = format!("replica {child} is recorded healthy and in no layout");
                    report.broken(key.clone(), words);
                }
            }
        }
        Key::Pool(id) => {
            let node = records.pools.get(id).map(|pool| pool.spec.node);
            if let Some(node) = node.filter(|node| !records.nodes.contains_key(node)) {
                report.broken(key.clone(), format!("there is no node {node}"));
            }
        }
        Key::Snapshot(id) => {
            let volume = records.snapshots.get(id).map(|snapshot| snapshot.spec.volume);
            if let Some(volume) = volume.filter(|volume| !records.volumes.contains_key(volume)) {
                report.broken(key.clone(), format!("there is no volume {volume}"));
            }
        }
        _ => {}
    }
}

fn check_layout(records: &Records, key: &Key, volume: &Volume, report: &mut Report) {
    let layout = &volume.layout;
    for replica in &layout.replicas {
        if !records.pools.contains_key(&replica.pool) {
            let words = format!("replica {} is in no known pool ({})", replica.id, replica.pool);
            report.broken(key.clone(), words);
        }
    }
    let targets = layout.target.iter().map(|target| target.node);
    let old_targets = layout.old_targets.iter().map(|target| target.node);
    let nodes = layout.replicas.iter().map(|replica| replica.node);
    let is_unknown = |node: &NodeId| !records.nodes.contains_key(node);
    for node in nodes.chain(targets).chain(old_targets).filter(is_unknown) {
        report.broken(key.clone(), format!("its layout names node {node}, which is not there"));
    }
    let hosts = layout.hosts.keys().copied().chain(layout.share.iter().map(|share| share.server));
    let is_unknown = |host: &HostId| !records.hosts.contains_key(host);
    for host in hosts.filter(is_unknown) {
        report.broken(key.clone(), format!("its layout names host {host}, which is not there"));
    }
}

fn check_commit(committed: Committed<'_>, report: &mut Report) {
    for key in &committed.commit.misfiled {
        report.broken(key.clone(), "the record of another key was put there");
    }
    for change in committed.volumes() {
        // A clone needs its origin only while it is made: later the snapshot may go.
        let (None, Some(volume)) = (change.volume.before, change.volume.after) else { continue };
        let origin = volume.spec.origin;
        let is_unknown = |id: &_| !committed.records.snapshots.contains_key(id);
        if let Some(origin) = origin.filter(is_unknown) {
            report.broken(change.key(), format!("it starts from snapshot {origin}, not there"));
        }
    }
}

#[cfg(test)]
mod tests;
