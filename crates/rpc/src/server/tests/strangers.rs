//! Who is refused where certificates are asked for.

use std::path::Path;

use pki::{Authority, Files, Order};

use super::*;

/// The keyring of a process, by the authority in a folder of this name.
fn ring(folder: &Path, authority: &str, role: Role, name: &str) -> Keyring {
    let (authority, _) = Authority::init(&folder.join(authority), 2).unwrap();
    let peer = Peer::new(role, name).unwrap();
    let to = authority.place(&peer);
    let addresses = vec!["127.0.0.1".to_owned()];
    authority.issue(&Order { peer, addresses, days: 1, renew: false }, &to).unwrap();
    Keyring::open(Files::in_folder(&to)).unwrap()
}

struct Rig {
    folder: tempfile::TempDir,
    address: SocketAddr,
    hearing: mpsc::Receiver<Heard>,
}

impl Rig {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = ring(folder.path(), "ours", Role::Controller, "c");
        let (address, hearing) = controller_with(Some(own)).await;
        Self { folder, address, hearing }
    }

    fn ring(&self, authority: &str, role: Role, name: &str) -> Keyring {
        ring(self.folder.path(), authority, role, name)
    }

    /// Says hello, and tells whether it was let in.
    async fn says(&mut self, keyring: Option<&Keyring>, hello: &ToController) -> bool {
        let Ok(stream) = pki::dial(&self.address.to_string(), keyring).await else { return false };
        let (mut incoming, mut outgoing) = split::<ToEngine, ToController>(stream).unwrap();
        if outgoing.send(hello).await.is_err() {
            return false;
        }
        tokio::select! {
            heard = self.hearing.recv() => {
                let what = heard.unwrap().what;
                assert!(matches!(what, What::Opened { .. } | What::HostOpened { .. }), "{what:?}");
                true
            }
            // Nothing is ever sent to it: it is hung up on.
            end = incoming.next() => {
                assert!(matches!(end, Ok(None) | Err(_)), "{end:?}");
                false
            }
        }
    }
}

/// M-17: a host that calls itself by a name that means any host would open its volumes to all.
#[tokio::test]
async fn a_host_without_a_name_of_its_own_is_refused() {
    for nqn in ["*", "", "nqn", "host"] {
        let mut rig = Rig::new().await;
        let keyring = rig.ring("ours", Role::Host, "h");
        let ToController::HostHello(mut hello) = host_hello() else { panic!("no host") };
        hello.nqn = nqn.into();
        assert!(!rig.says(Some(&keyring), &ToController::HostHello(hello)).await, "{nqn}");
    }
}

#[tokio::test]
async fn an_engine_and_a_host_with_certificates_of_theirs_are_let_in() {
    let mut rig = Rig::new().await;
    let engine = rig.ring("ours", Role::Engine, "a");
    assert!(rig.says(Some(&engine), &hello()).await);
    let mut rig = Rig::new().await;
    let host = rig.ring("ours", Role::Host, "h");
    assert!(rig.says(Some(&host), &host_hello()).await);
}

/// M-17: without a certificate nobody is heard at the stream of engines and hosts.
#[tokio::test]
async fn an_engine_without_a_certificate_is_refused() {
    let mut rig = Rig::new().await;
    assert!(!rig.says(None, &hello()).await);
}

/// M-17: a certificate of another authority opens nothing there.
#[tokio::test]
async fn an_engine_of_another_authority_is_refused() {
    let mut rig = Rig::new().await;
    let strange = rig.ring("theirs", Role::Engine, "a");
    assert!(!rig.says(Some(&strange), &hello()).await);
}

/// M-17: a host cannot pose as a node, nor a client, nor a controller.
#[tokio::test]
async fn a_certificate_of_another_role_is_refused() {
    let mut rig = Rig::new().await;
    for role in [Role::Host, Role::Client, Role::Controller, Role::Etcd] {
        let keyring = rig.ring("ours", role, "a");
        assert!(!rig.says(Some(&keyring), &hello()).await, "{role}");
    }
    let engine = rig.ring("ours", Role::Engine, "h");
    assert!(!rig.says(Some(&engine), &host_hello()).await);
}

/// M-17: an engine cannot speak for the node of another name.
#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let mut rig = Rig::new().await;
    let other = rig.ring("ours", Role::Engine, "b");
    assert!(!rig.says(Some(&other), &hello()).await);
}
