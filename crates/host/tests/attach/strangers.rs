//! Who may connect to what: targets take the hosts of their volume, replicas their target.
//!
//! There is no TLS on the way of data: the lists of names, which controllers send, are what holds.

use std::{net::SocketAddr, time::Duration};

use disk::{Client, ClientError, Options, Uri};
use e2e::in_process::VOLUME;
use model::{HostId, ReplicaId, nqn};
use uuid::Uuid;

use crate::rig::{Rig, node};

/// Enough for several tries.
const PATIENCE: Duration = Duration::from_secs(1);

/// For one that must be let in, on a machine with much else to do.
const LONG_PATIENCE: Duration = Duration::from_secs(20);

/// Connects under a name, and says why not if it is refused.
async fn connects(at: SocketAddr, to: String, name: String, id: Uuid) -> Result<(), String> {
    connects_within(PATIENCE, at, to, name, id).await
}

async fn connects_within(
    patience: Duration,
    at: SocketAddr,
    to: String,
    name: String,
    id: Uuid,
) -> Result<(), String> {
    let options = Options { host_nqn: name, host_id: id, patience, ..Options::default() };
    let uri = Uri { addresses: vec![at], nqn: to };
    let connecting = tokio::task::spawn_blocking(move || Client::connect(&uri, options).map(drop));
    match connecting.await.unwrap() {
        Ok(()) => Ok(()),
        Err(ClientError::NoPath { reason, .. }) => Err(reason),
        Err(other) => panic!("{other}"),
    }
}

/// M-17: at a target, a host under a name that its volume was not published to.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_refuses_hosts_that_its_volume_was_not_published_to() {
    let mut rig = Rig::new(2).await;
    let (host, other) = (rig.host(7), rig.host(8));
    rig.publish(host.host).await;
    let at = rig.target_address().await;
    let volume = VOLUME.nqn();
    let stranger = HostId::from_u128(666);
    // One that nobody knows, one that is known and has other volumes, the rightful one's machine
    // under another name, a storage node, and the word for anybody.
    for (name, id) in [
        (stranger.nqn(), stranger.0),
        (other.host.nqn(), other.host.0),
        (stranger.nqn(), host.host.0),
        (nqn(node(1).0), node(1).0),
        ("*".to_owned(), host.host.0),
    ] {
        let refused = connects(at, volume.clone(), name.clone(), id).await.unwrap_err();
        assert!(refused.contains("ConnectHostRefused"), "{name}: {refused}");
    }
    // Two that are the same to the target would end each other's sessions.
    let id = host.host;
    host.stop().await;
    assert_eq!(connects_within(LONG_PATIENCE, at, volume, id.nqn(), id.0).await, Ok(()));
    other.stop().await;
}

/// M-17: at a replica, everybody but the node whose target it belongs to: hosts, also the one that
/// the volume was published to, and the other nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_refuses_everybody_but_its_target() {
    let mut rig = Rig::new(2).await;
    let host = rig.host(7);
    rig.publish(host.host).await;
    let target = rig.settled().await;
    let copies: Vec<(ReplicaId, model::NodeId, SocketAddr)> = rig.replicas().await;
    assert_eq!(copies.len(), 2);
    for (replica, home, at) in copies {
        let strangers = [host.host.0, Uuid::from_u128(666)];
        let nodes = (0..3).map(|n| node(n).0).filter(|node| *node != target.0);
        for id in strangers.into_iter().chain(nodes) {
            let refused = connects(at, nqn(replica.0), nqn(id), id).await.unwrap_err();
            assert!(refused.contains("ConnectHostRefused"), "{id} at {home}: {refused}");
        }
        // The name alone is what lets in: a target elsewhere connects like this.
        assert_eq!(connects(at, nqn(replica.0), nqn(target.0), target.0).await, Ok(()));
    }
    host.stop().await;
}
