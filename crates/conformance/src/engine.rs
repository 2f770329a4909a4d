//! What every engine must do with a config, whatever runs underneath: the rules by which a stale
//! leader, a swapped disk or an empty store destroys nothing.
//!
//! Targets are judged by the simulator and end to end: they need peers, hosts and a store.

mod config;

use std::{future::Future, time::Duration};

use model::{
    Buried, Bytes, Epoch, Inventory, NodeId, PoolHealth, PoolId, ReplicaHealth, ReplicaId, Revision,
};
use ports::{Engine, EngineError};

use self::config::Sketch;

/// A node with blank disks, on which an engine runs. Dropping it ends everything.
pub trait Bench {
    type Engine: Engine;

    fn node(&self) -> NodeId;
    /// Paths of two blank disks of `DISK_SIZE` each.
    fn disks(&self) -> [String; 2];
    fn engine(&self) -> &Self::Engine;
    /// The process dies at once, and another one starts on the same disks.
    fn restart(&mut self) -> impl Future<Output = ()>;
    /// Pulls a disk and puts a blank one in its place, while no process runs.
    fn swap_and_restart(&mut self, disk: &str) -> impl Future<Output = ()>;
}

/// What each disk of a bench holds at least, and less than twice of it.
pub const DISK_SIZE: Bytes = Bytes::mib(64);

/// Inventories until something that takes time must be there.
const LOOKS_MAX: usize = 1_000;

/// What takes longer was not told.
const PATIENCE: Duration = Duration::from_secs(10);

const POOL: PoolId = PoolId::from_u128(0xa1);
const OTHER_POOL: PoolId = PoolId::from_u128(0xa2);
const REPLICA: ReplicaId = ReplicaId::from_u128(0xb1);
const OTHER_REPLICA: ReplicaId = ReplicaId::from_u128(0xb2);

/// Runs every check, each on a new bench.
pub async fn run<B: Bench>(new: impl AsyncFn() -> B) {
    starts_empty(&new().await).await;
    makes_pools_and_replicas(&new().await).await;
    takes_the_same_config_twice(&new().await).await;
    refuses_what_is_not_for_it(&new().await).await;
    follows_an_era_that_replaced_its_own(&new().await).await;
    follows_differences(&new().await).await;
    keeps_what_a_config_does_not_name(&new().await).await;
    destroys_for_tombstones_alone(&new().await).await;
    refuses_what_has_no_room(&new().await).await;
    grows_and_never_shrinks(&new().await).await;
    raises_epochs_and_never_lowers_them(&mut new().await).await;
    tells_that_an_epoch_is_admitted(&new().await).await;
    finds_everything_after_a_restart(&mut new().await).await;
    never_makes_again_what_must_exist(&mut new().await).await;
}

async fn sketch<B: Bench>(bench: &B) -> Sketch {
    let seen = bench.engine().inventory().await.unwrap();
    let [disk, other] = bench.disks();
    Sketch::new(bench.node(), seen.instance).pool(POOL, disk).pool(OTHER_POOL, other)
}

/// Applies, and waits until no pool is being imported.
async fn apply<B: Bench>(bench: &B, sketch: &Sketch) -> Inventory {
    bench.engine().apply(&sketch.config()).await.unwrap();
    let importing =
        |seen: &Inventory| seen.pools.values().any(|pool| pool.health == PoolHealth::Importing);
    for _ in 0..LOOKS_MAX {
        let seen = bench.engine().inventory().await.unwrap();
        if !importing(&seen) {
            assert_eq!(seen.generation, sketch.generation());
            return seen;
        }
        bench.engine().changes(seen.sequence).await.unwrap();
    }
    panic!("a pool is imported for ever");
}

async fn refused<B: Bench>(bench: &B, sketch: &Sketch) -> EngineError {
    bench.engine().apply(&sketch.config()).await.unwrap_err()
}

/// RS-1.
async fn starts_empty<B: Bench>(bench: &B) {
    let seen = bench.engine().inventory().await.unwrap();
    assert_eq!((seen.node, seen.generation), (bench.node(), Revision::ZERO));
    assert!(seen.pools.is_empty() && seen.replicas.is_empty() && seen.targets.is_empty());
    let later = bench.engine().inventory().await.unwrap();
    assert!(later.sequence > seen.sequence, "inventories are counted");
    assert_eq!(later.instance, seen.instance);
}

async fn makes_pools_and_replicas<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.replica(REPLICA, POOL, Bytes::mib(8));
    let seen = apply(bench, &sketch).await;
    let pool = &seen.pools[&POOL];
    assert_eq!(pool.health, PoolHealth::Online);
    assert!(pool.capacity > Bytes::mib(32) && pool.used >= Bytes::mib(8));
    assert_eq!(pool.mark, Some(sketch.mark()), "the pool has seen this point of history");
    let replica = &seen.replicas[&REPLICA];
    assert_eq!((replica.pool, &replica.health), (POOL, &ReplicaHealth::Online));
    assert_eq!((replica.size, replica.birth), (Bytes::mib(8), Some(sketch.mark())));
}

async fn takes_the_same_config_twice<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.replica(REPLICA, POOL, Bytes::mib(8));
    let first = apply(bench, &sketch).await;
    let again = apply(bench, &sketch).await;
    assert_eq!((first.pools, first.replicas), (again.pools, again.replicas));
}

/// ST-4.
async fn refuses_what_is_not_for_it<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.at(10);
    let instance = bench.engine().inventory().await.unwrap().instance;
    let other = sketch.clone().for_another_instance();
    assert_eq!(refused(bench, &other).await, EngineError::OtherInstance { instance });
    apply(bench, &sketch).await;
    let older = sketch.clone().at(9);
    assert_eq!(refused(bench, &older).await, EngineError::Older { at: Revision(10) });
    let gap = sketch.clone().at(12).since(11);
    assert_eq!(refused(bench, &gap).await, EngineError::NeedsWhole { at: Revision(10) });
    let stranger = sketch.clone().at(12).era(2);
    assert_eq!(refused(bench, &stranger).await, EngineError::OtherEra);
    let seen = bench.engine().inventory().await.unwrap();
    assert_eq!(seen.generation, Revision(10), "what was refused left nothing behind");
}

/// OP-4.
async fn follows_an_era_that_replaced_its_own<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.at(10);
    apply(bench, &sketch).await;
    // The store that was recovered counts from further back.
    let next = sketch.at(5).era(2).replacing(1);
    let seen = apply(bench, &next).await;
    assert_eq!(seen.pools[&POOL].mark, Some(next.mark()));
}

async fn follows_differences<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.at(2);
    apply(bench, &sketch).await;
    let more = Sketch::difference_of(&sketch).at(3).since(2);
    let more = more.replica(REPLICA, POOL, Bytes::mib(8));
    let seen = apply(bench, &more).await;
    assert!(seen.replicas.contains_key(&REPLICA));
    assert_eq!(seen.pools.len(), 2, "what a difference does not name stays as it was");
}

/// RC-6, M-23: absence is not deletion.
async fn keeps_what_a_config_does_not_name<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.replica(REPLICA, POOL, Bytes::mib(8));
    apply(bench, &sketch).await;
    let seen = apply(bench, &Sketch::difference_of(&sketch).at(3)).await;
    let orphan = &seen.replicas[&REPLICA];
    assert_eq!(orphan.health, ReplicaHealth::Online);
    let (_, carried) = orphan.carried.as_ref().expect("it says what it belongs to");
    assert_eq!(carried.meta.id, orphan.volume);
}

async fn destroys_for_tombstones_alone<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await;
    let both = sketch.clone().at(2);
    let both = both.replica(REPLICA, POOL, Bytes::mib(8));
    let both = both.replica(OTHER_REPLICA, POOL, Bytes::mib(8));
    apply(bench, &both).await;
    let buried = Buried::Replica { replica: REPLICA, pool: POOL };
    let seen = apply(bench, &sketch.clone().at(3).tombstone(buried)).await;
    assert!(!seen.replicas.contains_key(&REPLICA));
    assert!(seen.replicas.contains_key(&OTHER_REPLICA), "only what it names");
    let full = sketch.clone().at(4).tombstone(Buried::Pool { pool: POOL });
    let seen = apply(bench, &full).await;
    assert!(seen.replicas.contains_key(&OTHER_REPLICA), "a pool in use stays");
    let empty = Sketch::difference_of(&sketch).at(5);
    let empty = empty.tombstone(Buried::Pool { pool: OTHER_POOL });
    let seen = apply(bench, &empty).await;
    assert!(!seen.pools.contains_key(&OTHER_POOL));
}

/// LC-2.
async fn refuses_what_has_no_room<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.replica(REPLICA, POOL, Bytes::mib(8));
    let seen = apply(bench, &sketch.replica(OTHER_REPLICA, POOL, Bytes::gib(1))).await;
    let health = &seen.replicas[&OTHER_REPLICA].health;
    assert!(matches!(health, ReplicaHealth::Refused { .. }), "{health:?}");
    assert_eq!(seen.replicas[&REPLICA].health, ReplicaHealth::Online);
}

async fn grows_and_never_shrinks<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await;
    let sized = |size| sketch.clone().replica(REPLICA, POOL, Bytes::mib(size));
    apply(bench, &sized(8).at(2)).await;
    let seen = apply(bench, &sized(16).at(3)).await;
    assert_eq!(seen.replicas[&REPLICA].size, Bytes::mib(16));
    let seen = apply(bench, &sized(8).at(4)).await;
    assert_eq!(seen.replicas[&REPLICA].size, Bytes::mib(16));
}

/// HA-3: what a replica admitted survives the process.
async fn raises_epochs_and_never_lowers_them<B: Bench>(bench: &mut B) {
    let admitting = async |bench: &B, epoch, generation| {
        let sketch = sketch(bench).await.at(generation);
        let sketch = sketch.replica(REPLICA, POOL, Bytes::mib(8)).admitting(Epoch(epoch));
        apply(bench, &sketch).await.replicas[&REPLICA].epoch
    };
    assert_eq!(admitting(bench, 5, 2).await, Epoch(5));
    assert_eq!(admitting(bench, 4, 3).await, Epoch(5));
    bench.restart().await;
    assert_eq!(admitting(bench, 3, 4).await, Epoch(5));
    assert_eq!(admitting(bench, 6, 5).await, Epoch(6));
}

/// Whoever follows the changes sees the epoch, however long it takes until the disk has it.
async fn tells_that_an_epoch_is_admitted<B: Bench>(bench: &B) {
    let sketch = sketch(bench).await.replica(REPLICA, POOL, Bytes::mib(8));
    apply(bench, &sketch).await;
    for epoch in (5..25).map(Epoch) {
        // Of the same generation: nothing else of it is new.
        let config = sketch.clone().admitting(epoch).config();
        let follow = async {
            loop {
                let seen = bench.engine().inventory().await.unwrap();
                if seen.replicas[&REPLICA].epoch == epoch {
                    return;
                }
                bench.engine().changes(seen.sequence).await.unwrap();
            }
        };
        let both = async { tokio::join!(bench.engine().apply(&config), follow).0.unwrap() };
        tokio::time::timeout(PATIENCE, both).await.expect("nobody hears of the epoch");
    }
}

/// OP-5: everything that recovery needs is on the disks.
async fn finds_everything_after_a_restart<B: Bench>(bench: &mut B) {
    let before = sketch(bench).await.replica(REPLICA, POOL, Bytes::mib(8));
    apply(bench, &before).await;
    bench.restart().await;
    let found = bench.engine().inventory().await.unwrap();
    assert_eq!(found.generation, Revision::ZERO);
    assert_eq!(found.pools[&POOL].mark, Some(before.mark()));
    let (at, carried) = found.replicas[&REPLICA].carried.clone().expect("it says whose it is");
    assert_eq!((at, carried.meta.id), (before.generation(), found.replicas[&REPLICA].volume));
    assert_eq!(
        refused(bench, &before).await,
        EngineError::OtherInstance { instance: found.instance },
        "a config for the process before it"
    );
    let again = sketch(bench).await.must_exist().replica(REPLICA, POOL, Bytes::mib(8));
    let seen = apply(bench, &again).await;
    assert_eq!(seen.replicas[&REPLICA].health, ReplicaHealth::Online);
    assert_eq!(seen.replicas[&REPLICA].birth, Some(before.mark()));
}

/// M-24.
async fn never_makes_again_what_must_exist<B: Bench>(bench: &mut B) {
    let before = sketch(bench).await.replica(REPLICA, POOL, Bytes::mib(8));
    apply(bench, &before).await;
    let [disk, _] = bench.disks();
    bench.swap_and_restart(&disk).await;
    let again = sketch(bench).await.must_exist();
    let again = again.replica(REPLICA, POOL, Bytes::mib(8));
    let seen = apply(bench, &again.replica(OTHER_REPLICA, OTHER_POOL, Bytes::mib(8))).await;
    assert_eq!(seen.pools[&POOL].health, PoolHealth::Missing);
    assert!(!seen.replicas.contains_key(&REPLICA), "its pool is not there: it is unknown");
    assert_eq!(seen.replicas[&OTHER_REPLICA].health, ReplicaHealth::Missing);
}
