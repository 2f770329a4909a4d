//! Claims about reservations.

use super::*;
use crate::status::Code;

const A: HostId = [1; 16];
const B: HostId = [2; 16];
const C: HostId = [3; 16];

fn register(key: Key) -> Command {
    let action = Register::Register;
    Command::Register { action, ignores_key: false, current: 0, new: key, persist: None }
}

fn unregister(key: Key) -> Command {
    let action = Register::Unregister;
    Command::Register { action, ignores_key: false, current: key, new: 0, persist: None }
}

fn acquire(action: Acquire, kind: Kind, current: Key, other: Key) -> Command {
    Command::Acquire { action, ignores_key: false, kind: kind.number(), current, other }
}

/// The state after these, each of which must be accepted.
fn after(script: &[(HostId, Command)]) -> Reservations {
    script.iter().fold(Reservations::new(), |state, (host, command)| {
        state.decide(host, command).expect("a script that is accepted").0
    })
}

fn three(kind: Kind) -> Reservations {
    after(&[(A, register(10)), (B, register(20)), (A, acquire(Acquire::Acquire, kind, 10, 0))])
}

#[test]
fn each_kind_lets_in_whom_it_should() {
    use Kind::*;
    // Whether the registrant B and the stranger C may read and write.
    let table = [
        (WriteExclusive, [true, false], [true, false]),
        (ExclusiveAccess, [false, false], [false, false]),
        (WriteExclusiveRegistrants, [true, true], [true, false]),
        (ExclusiveAccessRegistrants, [true, true], [false, false]),
        (WriteExclusiveAll, [true, true], [true, false]),
        (ExclusiveAccessAll, [true, true], [false, false]),
    ];
    for (kind, registrant, stranger) in table {
        let state = three(kind);
        let may = |host| [Access::Read, Access::Write].map(|access| state.allows(host, access));
        assert_eq!(may(&A), [true, true], "{kind:?}");
        assert_eq!(may(&B), registrant, "{kind:?}");
        assert_eq!(may(&C), stranger, "{kind:?}");
        assert_eq!(state.is_holder(&B), kind.is_held_by_all());
    }
}

#[test]
fn a_key_cannot_be_changed_by_registering_again() {
    let state = after(&[(A, register(10))]);
    assert!(state.decide(&A, &register(10)).is_ok());
    assert_eq!(state.decide(&A, &register(11)).unwrap_err(), Code::ReservationConflict);
    assert_eq!(state.decide(&B, &register(0)).unwrap_err(), Code::InvalidField);
    let action = Register::Replace;
    let replace =
        Command::Register { action, ignores_key: true, current: 0, new: 12, persist: Some(true) };
    let (next, _) = state.decide(&A, &replace).unwrap();
    assert_eq!(next.key_of(&A), Some(12));
    assert!(next.persists());
}

#[test]
fn a_second_host_cannot_acquire_but_can_preempt() {
    let state = three(Kind::ExclusiveAccess);
    let acquired = state.decide(&B, &acquire(Acquire::Acquire, Kind::ExclusiveAccess, 20, 0));
    assert_eq!(acquired.unwrap_err(), Code::ReservationConflict);
    let preempt = acquire(Acquire::PreemptAndAbort, Kind::ExclusiveAccess, 20, 10);
    let (next, effects) = state.decide(&B, &preempt).unwrap();
    assert!(next.is_holder(&B) && !next.is_holder(&A));
    assert_eq!(next.key_of(&A), None);
    assert_eq!(effects.aborted, [A]);
    assert_eq!(effects.notices, [(A, Notice::RegistrationPreempted)]);
    assert_eq!(next.generation(), state.generation() + 1);
}

#[test]
fn preempting_another_registrant_leaves_the_reservation() {
    let state = three(Kind::WriteExclusive);
    let (next, effects) =
        state.decide(&A, &acquire(Acquire::Preempt, Kind::ExclusiveAccess, 10, 20)).unwrap();
    assert_eq!(next.kind(), Some(Kind::WriteExclusive));
    assert_eq!(effects.notices, [(B, Notice::RegistrationPreempted)]);
    assert!(effects.aborted.is_empty());
    let nobody = acquire(Acquire::Preempt, Kind::ExclusiveAccess, 10, 77);
    assert_eq!(state.decide(&A, &nobody).unwrap_err(), Code::ReservationConflict);
    let zero = acquire(Acquire::Preempt, Kind::ExclusiveAccess, 10, 0);
    assert_eq!(state.decide(&A, &zero).unwrap_err(), Code::InvalidField);
}

#[test]
fn key_zero_preempts_a_reservation_held_by_all() {
    let state = three(Kind::WriteExclusiveAll);
    let (next, effects) =
        state.decide(&B, &acquire(Acquire::Preempt, Kind::WriteExclusive, 20, 0)).unwrap();
    assert_eq!(next.key_of(&A), None);
    assert_eq!(next.kind(), Some(Kind::WriteExclusive));
    assert!(next.is_holder(&B));
    assert_eq!(effects.notices, [(A, Notice::RegistrationPreempted)]);
}

#[test]
fn a_reservation_goes_with_its_holder_and_one_of_all_with_the_last() {
    let (next, effects) =
        three(Kind::WriteExclusiveRegistrants).decide(&A, &unregister(10)).unwrap();
    assert_eq!(next.kind(), None);
    assert_eq!(effects.notices, [(B, Notice::ReservationReleased)]);

    let (next, _) = three(Kind::WriteExclusiveAll).decide(&A, &unregister(10)).unwrap();
    assert_eq!(next.kind(), Some(Kind::WriteExclusiveAll));
    let (next, _) = next.decide(&B, &unregister(20)).unwrap();
    assert_eq!(next.kind(), None);
}

#[test]
fn releasing_needs_the_right_kind_and_the_holder() {
    let state = three(Kind::WriteExclusiveRegistrants);
    let release = |kind: u8, current| Command::Release { ignores_key: false, kind, current };
    assert_eq!(state.decide(&A, &release(1, 10)).unwrap_err(), Code::InvalidField);
    assert_eq!(state.decide(&A, &release(3, 11)).unwrap_err(), Code::ReservationConflict);
    assert_eq!(state.decide(&B, &release(3, 20)).unwrap().0, state);
    let (next, effects) = state.decide(&A, &release(3, 10)).unwrap();
    assert_eq!((next.kind(), next.key_of(&A)), (None, Some(10)));
    assert_eq!(effects.notices, [(B, Notice::ReservationReleased)]);
}

#[test]
fn clearing_leaves_nothing_but_the_count() {
    let state = three(Kind::ExclusiveAccess);
    let clear = Command::Clear { ignores_key: false, current: 20 };
    let (next, effects) = state.decide(&B, &clear).unwrap();
    assert_eq!((next.kind(), next.key_of(&A), next.key_of(&B)), (None, None, None));
    assert_eq!(effects.notices, [(A, Notice::ReservationPreempted)]);
    assert_eq!(next.generation(), 3);
}

#[test]
fn the_state_survives_being_kept_and_nonsense_is_refused() {
    for kind in (1..=6).filter_map(Kind::from_number) {
        let state = three(kind);
        let bytes = state.to_bytes();
        assert_eq!(Reservations::from_bytes(&bytes), Some(state));
        assert_eq!(Reservations::from_bytes(&bytes[..bytes.len() - 1]), None);
        let mut other = bytes.clone();
        other[2] = 9;
        assert_eq!(Reservations::from_bytes(&other), None);
        // Without its registrants the holder is a stranger.
        assert_eq!(Reservations::from_bytes(&bytes[..24]), None);
    }
    assert_eq!(three(Kind::WriteExclusive).after_power_loss(), Reservations::new());
}

#[test]
fn commands_survive_the_wire() {
    let commands = [
        register(7),
        unregister(8),
        acquire(Acquire::PreemptAndAbort, Kind::ExclusiveAccessAll, 1, 2),
        Command::Release { ignores_key: true, kind: 4, current: 9 },
        Command::Clear { ignores_key: false, current: 3 },
        Command::Report { bytes: 4096 },
    ];
    for command in commands {
        let (sqe, data) = command.encode();
        assert_eq!(Command::parse(&sqe, &data), Ok(command));
    }
}

#[test]
fn a_report_lists_each_controller_of_each_registrant() {
    let state = three(Kind::ExclusiveAccess);
    let page = report(&state, &[Controller { cntlid: 5, host: A }]);
    assert_eq!(page.len(), 64 * 3);
    assert_eq!(&page[..10], &[2, 0, 0, 0, 2, 2, 0, 0, 0, 0]);
    assert_eq!(&page[64..67], &[5, 0, 1]);
    assert_eq!(page[72], 10);
    assert_eq!(&page[80..96], &A);
    assert_eq!(&page[128..131], &[0xff, 0xff, 0]);
}
