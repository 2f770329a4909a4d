//! LC-7, ST-3: spec is written by users, layout by the planner, and never both at once.
//!
//! A user's precondition compares the revision of the spec. It works only if that revision rises
//! with every change of the spec and with nothing that the planner does.

use alloc::format;

use model::{Key, Meta};

use crate::{Committed, Promise, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("hands", "no commit changes both spec and layout, and spec has its own revision")
        .of_commits(check);

fn check(committed: Committed<'_>, report: &mut Report) {
    macro_rules! judge {
        ($kind:ident, $changes:expr, $registers:expr) => {
            for change in $changes {
                let Some((before, after)) = change.both() else { continue };
                let registers: fn(_, _) -> bool = $registers;
                let decided = before.layout != after.layout && !registers(before, after);
                let hand = match (before.spec != after.spec, decided) {
                    (true, true) => Hand::Both,
                    (true, false) => Hand::User,
                    (false, _) => Hand::Planner,
                };
                judge(Key::$kind(change.id), &before.meta, &after.meta, hand, report);
            }
        };
    }
    // A process that registers brings its address and its instance in one breath.
    judge!(Node, committed.nodes(), |was: &model::Node, is: &model::Node| {
        was.layout.instance != is.layout.instance
    });
    judge!(Host, committed.hosts(), |was: &model::Host, is: &model::Host| {
        was.layout.instance != is.layout.instance
    });
    judge!(Pool, committed.pools(), |_: &model::Pool, _: &model::Pool| false);
    judge!(Snapshot, committed.snapshots(), |_: &model::Snapshot, _: &model::Snapshot| false);
    let volumes = committed.volumes().map(|change| change.volume);
    judge!(Volume, volumes, |_: &model::Volume, _: &model::Volume| false);
}

/// Whose part of a record changed, if any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hand {
    User,
    Planner,
    Both,
}

fn judge<Id>(key: Key, was: &Meta<Id>, is: &Meta<Id>, hand: Hand, report: &mut Report) {
    if hand == Hand::Both {
        report.broken(key.clone(), "its spec and its layout changed in one commit");
    }
    let (old, new) = (was.spec_revision, is.spec_revision);
    // Labels and names are the user's too, whether or not they count as a change of the spec.
    let renamed = was.labels != is.labels || was.name != is.name;
    let (what, is_fine) = match hand {
        Hand::User | Hand::Both => ("changed", old < new),
        Hand::Planner => ("did not change", old == new || (renamed && old < new)),
    };
    if !is_fine {
        let words = format!("its spec {what}, and its revision went from {old} to {new}");
        report.broken(key, words);
    }
}

#[cfg(test)]
mod tests;
