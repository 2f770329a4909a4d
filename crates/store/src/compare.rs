//! When a compare holds: for the machine, and for what etcd reports of a refused transaction.

use ports::{Entry, Expect};

pub(crate) fn holds(expect: Expect, found: Option<&Entry>) -> bool {
    match (expect, found) {
        (Expect::Absent, None) => true,
        (Expect::ModifiedAt(revision), Some(entry)) => entry.modified == revision,
        (Expect::CreatedAt(revision), Some(entry)) => entry.created == revision,
        _ => false,
    }
}
