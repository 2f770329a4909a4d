//! ST-3, ST-4: only the controller that holds the leader key changes resources.
//!
//! The store refuses a stale leader's writes because each carries the guard. A commit whose author
//! does not hold the key was made without it. Engines write membership records and nothing else.

use alloc::format;

use model::Key;

use crate::{Author, Committed, Promise, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("leader_guard", "only the controller that holds the leader key changes resources")
        .of_commits(check);

fn check(committed: Committed<'_>, report: &mut Report) {
    let commit = committed.commit;
    match commit.author {
        Author::Recovery => {}
        Author::Leader { created } => {
            let holds = commit.leader_before.is_some_and(|leader| leader.created == created);
            if !holds {
                let words = match commit.leader_before {
                    Some(leader) => format!("leads since {}, not {created}", leader.created),
                    None => format!("nobody leads, and one who led since {created} wrote"),
                };
                report.broken(Key::Leader, words);
            }
        }
        Author::Engine { instance } => {
            let is_its_own = |key: &&Key| matches!(key, Key::Membership(_) | Key::Event(_));
            if let Some(key) = commit.keys.iter().find(|key| !is_its_own(key)) {
                report.broken(key.clone(), format!("engine {instance} wrote it"));
            }
            let whole = |id| committed.volume(id).membership.both().is_some();
            if let Some(id) = commit.memberships.keys().find(|id| !whole(**id)) {
                let words = format!("engine {instance} made or removed it");
                report.broken(Key::Membership(*id), words);
            }
        }
        Author::Other => {
            let is_free = |key: &&Key| {
                matches!(key, Key::Cluster | Key::Leader | Key::Term(_) | Key::Event(_))
            };
            if let Some(key) = commit.keys.iter().find(|key| !is_free(key)) {
                report.broken(key.clone(), "it was written without the leader key");
            }
        }
    }
}

#[cfg(test)]
mod tests;
