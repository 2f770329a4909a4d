//! When a subject that waits is planned again.

use model::{InstanceId, NodeId, Time};

use super::*;
use crate::{Config, Event};

fn timer_after(now: u64, until: u64) -> Option<Time> {
    let mut reconciler = Reconciler::new(Config::new(InstanceId::from_u128(1), 1));
    reconciler.handle(Time(now), Event::Tick);
    let subject = Subject::Node(NodeId::from_u128(1));
    reconciler.wait(subject, &[Wait::OrphanGrace { until: Time(until) }]);
    reconciler.queue.next_timer()
}

#[test]
fn a_deadline_is_planned_for() {
    assert_eq!(timer_after(1_000, 1_001), Some(Time(1_001)));
}

/// A rule that waits beyond its own deadline waits for news. Planning it at once, and again at
/// once, would only keep a processor busy.
#[test]
fn a_deadline_that_has_passed_is_not_planned_for_again_and_again() {
    assert_eq!(timer_after(1_000, 1_000), None);
    assert_eq!(timer_after(1_000, 900), None);
}
