//! Verdicts after a controller's own absence.

use super::*;

const DEAD: u64 = DEAD_AFTER.0;

/// A controller that began to listen at zero, missed a while, and goes on at `until`.
fn after_a_pause(until: Time) -> Detector {
    let mut detector = Detector::default();
    detector.begin_turn(Time(0));
    detector.begin_turn(until);
    detector
}

/// HA-7: whoever was dead may have come back while this controller was away.
#[test]
fn an_old_verdict_of_death_is_not_kept_over_a_pause() {
    let now = Time(10 * DEAD);
    let detector = after_a_pause(now);
    let heard = Heard { at: Time(DEAD), closed: false };
    let verdict = |known, now| detector.verdict(Some(&heard), known, now);
    assert_eq!(verdict(Liveness::Dead, now), Liveness::Unknown);
    assert_eq!(verdict(Liveness::Unknown, now), Liveness::Unknown);
    assert_eq!(verdict(Liveness::Alive, now), Liveness::Alive);
    assert_eq!(verdict(Liveness::Unknown, now + DEAD_AFTER), Liveness::Dead);
    assert_eq!(verdict(Liveness::Alive, now + DEAD_AFTER), Liveness::Dead);
}

/// HA-7: a closed stream is death, whoever was late.
#[test]
fn a_closed_stream_outlasts_a_pause() {
    let now = Time(10 * DEAD);
    let detector = after_a_pause(now);
    let closed = Heard { at: Time(DEAD), closed: true };
    assert_eq!(detector.verdict(Some(&closed), Liveness::Dead, now), Liveness::Dead);
}

/// HA-7: a process that is wrongly called past is believed again before its node is given up.
#[test]
fn the_wrong_process_on_record_is_doubted_before_its_node_is_dead() {
    let mut detector = Detector::default();
    let beats = (0..10).map(|beat| Time(beat * model::limits::HEARTBEAT_EVERY.0));
    beats.for_each(|at| detector.begin_turn(at));
    let heard = Heard { at: Time(2_000), closed: false };
    let at = |late: u64| Time(2_000 + late);
    assert!(!detector.is_quiet(Some(&heard), at(model::limits::HEARTBEAT_EVERY.0)));
    let doubted = (0..DEAD).find(|late| detector.is_quiet(Some(&heard), at(*late))).unwrap();
    assert!(doubted + model::limits::HEARTBEAT_EVERY.0 < DEAD, "{doubted}");
    assert_eq!(detector.verdict(Some(&heard), Liveness::Alive, at(doubted)), Liveness::Alive);
}
