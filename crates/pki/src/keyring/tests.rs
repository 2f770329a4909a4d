//! Two ends of a handshake, over real sockets.

use std::path::PathBuf;

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::{Authority, Door, Order, dial};

struct Rig {
    folder: TempDir,
}

impl Rig {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn files(&self, authority: &str, role: Role, addresses: &[&str]) -> Files {
        let (authority, _) = Authority::init(&self.path(authority), 10).unwrap();
        let peer = Peer::new(role, "x").unwrap();
        let addresses = addresses.iter().map(|text| (*text).to_owned()).collect();
        let to = authority.place(&peer);
        let order = Order { peer, addresses, days: 5, renew: true };
        authority.issue(&order, &to).unwrap();
        Files::in_folder(&to)
    }

    fn ring(&self, authority: &str, role: Role, addresses: &[&str]) -> Keyring {
        Keyring::open(self.files(authority, role, addresses)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// What the server makes of the client, and whether a byte went both ways.
async fn meet(server: &Keyring, client: &Keyring) -> (io::Result<Peer>, io::Result<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let serve = async {
        let (stream, _) = listener.accept().await?;
        let mut welcomed = Door::welcome(Some(server.clone()), stream).await?;
        let byte = welcomed.stream.read_u8().await?;
        welcomed.stream.write_u8(byte).await?;
        welcomed.stream.flush().await?;
        Ok(welcomed.peer.unwrap())
    };
    let ask = async {
        let mut stream = dial(&to, Some(client)).await?;
        stream.write_u8(7).await?;
        stream.flush().await?;
        stream.read_u8().await
    };
    tokio::join!(serve, ask)
}

#[tokio::test]
async fn two_of_one_authority_talk_and_the_role_is_told() {
    let rig = Rig::new();
    let controller = rig.ring("ours", Role::Controller, &["127.0.0.1"]);
    let engine = rig.ring("ours", Role::Engine, &[]);
    let (peer, byte) = meet(&controller, &engine).await;
    assert_eq!((peer.unwrap(), byte.unwrap()), (engine.own(), 7));
}

/// M-17: a certificate of another authority opens nothing, on either side.
#[tokio::test]
async fn a_stranger_is_refused_and_not_believed() {
    let rig = Rig::new();
    let controller = rig.ring("ours", Role::Controller, &["127.0.0.1"]);
    let mut strange = rig.files("theirs", Role::Engine, &[]);
    let (peer, byte) = meet(&controller, &Keyring::open(strange.clone()).unwrap()).await;
    assert!(peer.is_err() && byte.is_err());
    // One that believes us is still a stranger to us.
    strange.ca = rig.path("ours").join("ca.crt");
    let (peer, byte) = meet(&controller, &Keyring::open(strange).unwrap()).await;
    assert!(peer.is_err() && byte.is_err());
}

/// M-17: nobody gets in without a certificate.
#[tokio::test]
async fn who_shows_no_certificate_is_refused() {
    let rig = Rig::new();
    let controller = rig.ring("ours", Role::Controller, &["127.0.0.1"]);
    let roots = folder::certificates(&rig.path("ours").join("ca.crt")).unwrap();
    let mut store = RootCertStore::empty();
    store.add(roots.into_iter().next().unwrap()).unwrap();
    let bare = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    let client = rig.ring("ours", Role::Engine, &[]);
    client.loaded.lock().unwrap().client = Arc::new(bare);
    let (peer, byte) = meet(&controller, &client).await;
    assert!(peer.is_err() && byte.is_err());
}

/// M-17: an engine cannot pose as a controller, nor a controller at an address that is not its own.
#[tokio::test]
async fn only_a_controller_is_believed_and_only_where_it_belongs() {
    let rig = Rig::new();
    let client = rig.ring("ours", Role::Client, &[]);
    let posing = rig.ring("ours", Role::Engine, &["127.0.0.1"]);
    assert!(meet(&posing, &client).await.1.is_err());
    let etcd = rig.ring("ours", Role::Etcd, &["127.0.0.1"]);
    assert!(meet(&etcd, &client).await.1.is_err());
    let elsewhere = rig.ring("ours", Role::Controller, &["10.0.0.1"]);
    assert!(meet(&elsewhere, &client).await.1.is_err());
}

#[tokio::test]
async fn a_changed_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let rig = Rig::new();
    let controller = rig.ring("ours", Role::Controller, &["10.0.0.1"]);
    let client = rig.ring("ours", Role::Client, &[]);
    assert!(meet(&controller, &client).await.1.is_err());
    let files = rig.files("ours", Role::Controller, &["127.0.0.1"]);
    assert_eq!(meet(&controller, &client).await.1.unwrap(), 7);
    fs::write(&files.cert, "no certificate").unwrap();
    assert_eq!(meet(&controller, &client).await.1.unwrap(), 7);
}

/// M-17: a key that anybody may read is no secret.
#[test]
fn a_key_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let files = rig.files("ours", Role::Host, &[]);
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(Keyring::open(files), Err(PkiError::Exposed { .. })));
}
