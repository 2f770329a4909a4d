//! The stand-alone target as a process that is killed, without other people's tools.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../tools/rig.rs"]
#[allow(dead_code, reason = "the tools need more of it")]
mod rig;

use block::{BLOCK, Buffer, Extent};
use disk::{Client, Options};
use nvme::{
    Code, Op,
    reservation::{Acquire, Command, Register},
};
use rig::Place;
use uuid::Uuid;

fn host(uri: &str, number: u8) -> Client {
    let options = Options { host_id: Uuid::from_bytes([number; 16]), ..Options::default() };
    Client::connect(&uri.parse().unwrap(), options).unwrap()
}

fn write(host: &mut Client) -> Option<Code> {
    let (extent, data) = (Extent::new(0, 1), Buffer::zeroed(BLOCK));
    let answer = host.run(Op::Write { extent, data, fua: false }).unwrap();
    answer.err().map(|status| status.code)
}

#[test]
fn a_reservation_outlives_a_target_that_is_killed() {
    let place = Place::new();
    let mut target = place.serve();
    let uri = target.word.clone();
    let mut holder = host(&uri, 7);
    let (ignores_key, persist) = (false, Some(true));
    let action = Register::Register;
    let register = Command::Register { action, ignores_key, current: 0, new: 9, persist };
    holder.run(Op::Reservation(register)).unwrap().unwrap();
    let (action, kind) = (Acquire::Acquire, 1);
    let acquire = Command::Acquire { action, ignores_key, kind, current: 9, other: 0 };
    holder.run(Op::Reservation(acquire)).unwrap().unwrap();
    for _ in 0..2 {
        target.kill();
        target = place.serve();
        assert_eq!(write(&mut host(&uri, 8)), Some(Code::ReservationConflict));
        assert_eq!(write(&mut holder), None);
    }
    // Whoever lets go lets everybody in, for good as well.
    holder.run(Op::Reservation(Command::Clear { ignores_key, current: 9 })).unwrap().unwrap();
    target.kill();
    let _target = place.serve();
    assert_eq!(write(&mut host(&uri, 8)), None);
}
