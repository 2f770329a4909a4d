//! Whatever bytes are on a disk, reading them gives an answer.

use alloc::{vec, vec::Vec};

use block::BLOCK;
use model::PoolId;

use super::world::{SMALL, World, fsck};
use crate::{
    Superblock,
    catalog::{self, Catalog},
    codec::Input,
    frame,
    journal::{Found, Owner},
    probe,
    record::Record,
    sim_disk::SimDisk,
    table,
};

/// Bytes by chance, many of them small, as lengths and tags are.
fn noise(disk: &mut SimDisk, len: usize) -> Vec<u8> {
    (0..len)
        .map(|_| {
            let draw = disk.draw();
            let byte = u8::try_from(draw >> 56).unwrap_or(0);
            if draw.is_multiple_of(2) { byte % 20 } else { byte }
        })
        .collect()
}

#[test]
fn arbitrary_bytes_give_an_error_and_no_more() {
    let mut chance = SimDisk::new(1, 5);
    for round in 0..3_000usize {
        let bytes = noise(&mut chance, round % 700);
        let mut input = Input::new(&bytes);
        while !input.is_empty() && Record::read(&mut input).is_ok() {}
        let _ = Catalog::decode(&bytes);
        let mut block = bytes.clone();
        block.resize(BLOCK, 0);
        assert!(Superblock::decode(&block).is_err());
        let _ = table::read_page(&block, PoolId::from_u128(7), 0);
        let _ = probe(&block, &bytes);
    }
}

#[test]
fn framed_noise_gives_an_error_and_no_more() {
    let pool = PoolId::from_u128(7);
    let owner = Owner { pool, incarnation: 0 };
    let mut chance = SimDisk::new(1, 6);
    for round in 0..3_000u64 {
        let bytes = noise(&mut chance, 600);
        let _ = Superblock::decode(frame::frame(*b"HoldfPSB", pool, round, &bytes).bytes());
        let page = frame::frame(*b"HoldfPCT", pool, round, &bytes);
        let _ = table::read_page(page.bytes(), pool, 0);
        let mut found = Found::new(owner, 0, 16);
        let block = frame::frame(*b"HoldfPJB", pool, round % 16, &bytes);
        found.see(round % 16, block.bytes());
        let _ = found.batches();
        let area = frame::frame(*b"HoldfPCA", pool, 1, &bytes);
        let _ = catalog::read_area(area.bytes(), pool, 1, 0);
    }
}

#[test]
fn a_changed_catalog_or_record_never_panics() {
    let mut world = World::new(1024, SMALL, 1);
    for request in [
        crate::Request::Create(super::world::new_replica(1, 300)),
        super::world::take(5, 1),
        crate::Request::Checkpoint,
    ] {
        world.done(request).expect("no cut");
    }
    let good = world.pool.encoded_catalog();
    assert!(Catalog::decode(&good).is_ok());
    for at in 0..good.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            let _ = Catalog::decode(&bytes);
        }
        let _ = Catalog::decode(&good[..at]);
    }
}

#[test]
fn a_disk_of_noise_is_no_pool() {
    let mut disk = SimDisk::new(64, 1);
    assert!(fsck(&mut disk).is_err());
    disk.litter();
    assert!(fsck(&mut disk).is_err());
    let none = vec![0; BLOCK];
    assert_eq!(probe(&none, &none), None);
}
