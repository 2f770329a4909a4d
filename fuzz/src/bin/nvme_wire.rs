//! The small parsers: names, descriptors, statuses, kept reservations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nvme::{
    Status,
    reservation::{Reservations, report},
    wire::{
        fabrics::{NAME_FIELD, name_of, put_name},
        identify::descriptors,
        pdu::Kind,
    },
};

fuzz_target!(|data: &[u8]| {
    if let Some(field) = data.first_chunk::<NAME_FIELD>()
        && let Some(name) = name_of(field)
    {
        let mut back = [0; NAME_FIELD];
        put_name(&mut back, &name);
        assert_eq!(name_of(&back), Some(name));
    }
    let described: usize = descriptors(data).map(|(_, id)| id.len() + 4).sum();
    assert!(described <= data.len());
    if let Some(state) = Reservations::from_bytes(data) {
        assert_eq!(Reservations::from_bytes(&state.to_bytes()), Some(state.clone()));
        assert_eq!(report(&state, &[]).len() % 64, 0);
    }
    if let [low, high, kind, ..] = *data {
        let bits = u16::from_le_bytes([low, high]);
        if let Some(status) = Status::from_bits(bits) {
            assert_eq!(status.to_bits(), bits & !0x4001);
        }
        if let Some(known) = Kind::from_byte(kind) {
            assert_eq!(known.byte(), kind);
        }
    }
});
