//! Who is served where certificates are asked for.

use std::path::Path;

use pki::{Authority, Door, Files, Keyring, Order, Peer, Role};
use rest::ClusterShown;

use super::*;

fn ring(folder: &Path, authority: &str, role: Role) -> Keyring {
    let (authority, _) = Authority::init(&folder.join(authority), 2).unwrap();
    let peer = Peer::new(role, "x").unwrap();
    let to = authority.place(&peer);
    let addresses = vec!["127.0.0.1".to_owned()];
    authority.issue(&Order { peer, addresses, days: 1, renew: false }, &to).unwrap();
    Keyring::open(Files::in_folder(&to)).unwrap()
}

struct Rig {
    folder: tempfile::TempDir,
    address: SocketAddr,
    _stop: tokio_util::sync::DropGuard,
}

impl Rig {
    async fn new(bench: Bench) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let keyring = Some(ring(folder.path(), "ours", Role::Controller));
        let stop = CancellationToken::new();
        tokio::spawn(rest::serve(Door { listener, keyring }, bench, stop.clone()));
        Self { folder, address, _stop: stop.drop_guard() }
    }

    async fn ask(&self, authority: &str, role: Role) -> Result<ClusterShown, ClientError> {
        let keyring = ring(self.folder.path(), authority, role);
        let url = format!("https://{}", self.address);
        Client::with(&url, Some(keyring)).unwrap().get("/v1/cluster").await
    }
}

#[tokio::test]
async fn clients_and_controllers_are_served() {
    let rig = Rig::new(Bench::new("node a")).await;
    for role in [Role::Client, Role::Controller] {
        assert_eq!(rig.ask("ours", role).await.unwrap().nodes, 1, "{role}");
    }
}

/// M-17: whoever takes over an engine or a host does not rule the cluster.
#[tokio::test]
async fn a_certificate_of_another_role_is_forbidden_and_told_so() {
    let rig = Rig::new(Bench::new("node a")).await;
    for role in [Role::Engine, Role::Host, Role::Etcd] {
        let Err(ClientError::Refused(problem)) = rig.ask("ours", role).await else {
            panic!("{role} was served");
        };
        assert_eq!((&*problem.code, problem.status), ("forbidden", 403));
        assert!(problem.detail.contains(&role.to_string()), "{}", problem.detail);
    }
}

/// M-17: without a certificate nobody is served, with or without TLS.
#[tokio::test]
async fn who_has_no_certificate_is_refused() {
    let rig = Rig::new(Bench::new("node a")).await;
    let plain = Client::new(&format!("http://{}", rig.address)).unwrap();
    let refused = plain.get::<ClusterShown>("/v1/cluster").await.unwrap_err();
    assert!(matches!(refused, ClientError::Unreachable { .. }), "{refused}");
    let url = format!("https://{}", rig.address);
    assert!(matches!(Client::with(&url, None), Err(ClientError::NoCertificate { .. })));
}

/// M-17: a certificate of another authority opens nothing.
#[tokio::test]
async fn who_is_of_another_authority_is_refused() {
    let rig = Rig::new(Bench::new("node a")).await;
    let refused = rig.ask("theirs", Role::Client).await.unwrap_err();
    assert!(matches!(refused, ClientError::Unreachable { .. }), "{refused}");
}

/// RS-3 in part: a standby shows its own certificate when it passes a change on.
#[tokio::test]
async fn a_standby_passes_changes_on_with_its_certificate() {
    let leader = Rig::new(Bench::new("node a")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let keyring = Some(ring(leader.folder.path(), "ours", Role::Controller));
    let standby = Bench::new("node a").led_by(Some(format!("https://{}", leader.address)));
    let stop = CancellationToken::new();
    let _stopping = stop.clone().drop_guard();
    tokio::spawn(rest::serve(Door { listener, keyring }, standby, stop));
    let keyring = ring(leader.folder.path(), "ours", Role::Client);
    let client = Client::with(&url, Some(keyring)).unwrap();
    let answer: rest::Answer<serde_json::Value> = client
        .change(axum::http::Method::PUT, "/v1/nodes/a/cordon", None, None::<&()>)
        .await
        .unwrap();
    assert!(matches!(answer, rest::Answer::Done(_)), "{answer:?}");
}
