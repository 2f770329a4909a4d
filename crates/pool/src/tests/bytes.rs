//! Whatever bytes are on a disk, reading them gives an answer.

use alloc::{boxed::Box, vec, vec::Vec};

use block::{
    BLOCK,
    Durability::{Durable, Volatile},
};
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
        crate::Request::Create(Box::new(super::world::new_replica(1, 300))),
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

/// Changed by somebody who can seal it again: refused, or opened and used without a panic.
#[test]
fn a_sealed_lie_never_panics() {
    let mut play = super::damage::lived_in();
    play.world.disk.crash(crate::Crash::Process);
    let blocks = play.world.pool.geometry().data;
    let sealed: Vec<usize> = (0..usize::try_from(blocks).unwrap())
        .filter(|block| play.world.disk.bytes()[block * BLOCK..].starts_with(b"HoldfP"))
        .collect();
    let mut chance = SimDisk::new(1, 7);
    let mut draw = |bound: usize| usize::try_from(chance.draw() >> 16).unwrap() % bound;
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let mut world = play.world.clone();
        for _ in 0..=draw(2) {
            let block = sealed[draw(sealed.len())];
            let reach = if draw(2) == 0 { 100 } else { 700 };
            let at = 16 + draw(reach);
            world.disk.damage(block * BLOCK + at, u8::try_from(1 + draw(255)).unwrap());
            world.disk.reseal(block);
        }
        let _ = fsck(&mut world.disk);
        if world.reopen() {
            opened += 1;
            use_all(&mut world);
        } else {
            refused += 1;
        }
    }
    assert!(opened > 100 && refused > 100, "{opened} opened, {refused} refused");
}

/// Answers do not matter here.
fn use_all(world: &mut World) {
    let replicas: Vec<_> =
        world.pool.replicas().map(|state| (state.replica, state.blocks)).collect();
    for (replica, blocks) in replicas {
        let extent = block::Extent::new(blocks.saturating_sub(20), 12);
        let data = super::world::filled(extent, 3);
        let image = crate::Image::Replica(replica);
        for request in [
            crate::Request::Write { replica, extent, data, durability: Volatile },
            crate::Request::Read { image, extent: block::Extent::new(0, 100) },
            crate::Request::Flush,
            crate::Request::Zero {
                replica,
                extent: block::Extent::new(0, 90),
                durability: Durable,
            },
            crate::Request::DeleteSnapshot { replica, snapshot: super::world::snapshot(5) },
            crate::Request::Delete { replica },
        ] {
            let _ = world.ask(request);
        }
    }
    world.settle().expect("no cut");
    let _ = world.ask(crate::Request::Export);
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
