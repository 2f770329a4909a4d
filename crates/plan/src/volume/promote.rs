//! The last healthy copy is gone for ever, and a person accepted what that means.

use alloc::vec::Vec;

use model::Wait;

use super::Look;
use crate::{Action, Why};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    if look.good().next().is_some() {
        return None;
    }
    let missing: Vec<_> =
        look.copies.iter().filter(|copy| copy.healthy).map(|copy| copy.replica.pool).collect();
    // Unknown copies are not lost ones: only when nothing can be hoped for, a person is called.
    if look.copies.iter().any(|copy| copy.healthy && copy.loss().is_none()) {
        return None;
    }
    let wish = look.volume.spec.promote.as_ref();
    let wish = wish.filter(|wish| !look.volume.layout.promotions.contains(&wish.attempt));
    let Some(wish) = wish else {
        waits.push(Wait::NoHealthyCopy { missing });
        return None;
    };
    let offered = look.copies.iter().filter(|copy| copy.is_usable());
    let chosen = offered.filter(|copy| wish.replica.is_none_or(|id| id == copy.replica.id));
    // The newest roster took part in the latest membership; the epoch separates equals.
    let best = chosen.max_by_key(|copy| copy.seen().map(|seen| (seen.roster, seen.epoch)));
    if let Some(copy) = best {
        let (replica, attempt) = (copy.replica.id, wish.attempt);
        return Some((Action::Promote { replica, attempt }, Why::Asked));
    }
    waits.push(Wait::NoHealthyCopy { missing });
    None
}
