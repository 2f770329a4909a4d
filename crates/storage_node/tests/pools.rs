//! Pools as a node finds them, from outside: methods in, effects out.

use core::time::Duration;

use block::{BLOCK, Buffer};
use model::{InstanceId, NodeId, PoolId};
use pool::{Format, FormatOptions, FormatStep, Io, SimDisk, Sizes};
use storage_node::{DiskId, Effect, LogEvent, Mutations, NodeParams, StorageNode, Ticket};

const POOL: PoolId = PoolId::from_u128(3);
const NOW: Duration = Duration::ZERO;
const BLOCKS: u64 = 64 * 8;
/// As many reads as there are superblocks.
const SUPERBLOCKS: usize = 4;

fn node() -> StorageNode {
    let params = NodeParams {
        node: NodeId::from_u128(1),
        instance: InstanceId::from_u128(2),
        boot: pool::Boot(1),
        advertised: Vec::new(),
        times: mirror::Times::default(),
        throttle: mirror::Throttle::default(),
        geometry: mirror::Geometry::default(),
        pool_sizes: None,
        takes_faults: false,
        checks_loopback: false,
        mutations: Mutations::default(),
    };
    StorageNode::new(params, NOW)
}

/// A disk with an empty pool.
fn formatted() -> SimDisk {
    let mut disk = SimDisk::new(BLOCKS, 1);
    let sizes = Sizes { journal: 48, catalog: 8, room_for: BLOCKS };
    let options =
        FormatOptions { pool: POOL, name: "pool".into(), blocks: BLOCKS, sizes, force: false };
    let mut format = Format::new(options);
    loop {
        match format.poll() {
            Some(FormatStep::Io { id, io }) => disk.submit(id, io),
            Some(FormatStep::Done(result)) => {
                (*result).expect("it fits");
                return disk;
            }
            None => {
                let (id, result) = disk.complete().expect("something is under way");
                format.io_done(id, result);
            }
        }
    }
}

/// Runs the node on a disk of which only so many operations, reads of a block, succeed. What the
/// node has to log.
fn run(node: &mut StorageNode, disk: &SimDisk, mut good: usize) -> Vec<LogEvent> {
    let mut logged = Vec::new();
    loop {
        node.run(NOW);
        let mut is_quiet = true;
        while let Some(effect) = node.next_effect() {
            match effect {
                Effect::OpenDisk(open) => node.disk_opened(NOW, &open, Ok((DiskId(1), BLOCKS))),
                Effect::Disk { io, op: Io::Read { offset, len: BLOCK }, .. } if good > 0 => {
                    good -= 1;
                    let start = usize::try_from(offset).expect("a small disk");
                    let data = Buffer::copy_of(&disk.bytes()[start..start + BLOCK]);
                    node.disk_done(NOW, io, Ok(Some(data)));
                }
                Effect::Disk { io, .. } => {
                    node.disk_done(NOW, io, Err(pool::IoError { code: 5 }));
                }
                Effect::Log(event) => {
                    logged.push(event);
                    continue;
                }
                _ => continue,
            }
            is_quiet = false;
        }
        if is_quiet {
            return logged;
        }
    }
}

/// A pool that cannot be read is said to be faulted, in the log and in the inventory.
#[test]
fn a_pool_whose_import_fails_is_logged_with_the_reason() {
    let mut node = node();
    node.look_at(POOL, "/dev/bad".into());
    let logged = run(&mut node, &formatted(), SUPERBLOCKS);
    let [LogEvent::PoolFaulted { pool, reason }] = &logged[..] else { panic!("{logged:?}") };
    assert_eq!(*pool, POOL);
    assert!(reason.contains("error 5"), "{reason}");
    node.request_inventory(NOW, Ticket(1));
    node.run(NOW);
    let told = std::iter::from_fn(|| node.next_effect()).find_map(|effect| match effect {
        Effect::Inventory { inventory, .. } => Some(inventory.pools[&POOL].health.clone()),
        _ => None,
    });
    assert!(matches!(told, Some(model::PoolHealth::Faulted { .. })), "{told:?}");
}
