//! ST-5: a volume's membership record is its target's to change, whoever else speaks.

use model::{InstanceId, Membership, Revision};
use pki::{Authority, Door, Files, Keyring, Order, Peer, Role};
use rpc::{MembershipAnswer, MembershipAsk, ToController, ToEngine};

use super::*;

/// An engine's end of a stream, of somebody who says what it likes.
struct Liar {
    incoming: rpc::Receiver<ToEngine>,
    outgoing: rpc::Sender<ToController>,
    call: u64,
}

fn hello(node: NodeId, name: &str, instance: u128) -> ToController {
    ToController::Hello(rpc::Hello {
        node,
        name: name.into(),
        address: "127.0.0.1:1".into(),
        instance: InstanceId::from_u128(instance),
        version: "0".into(),
        speaks: rpc::Speaks::OWN,
    })
}

impl Liar {
    async fn dial(to: SocketAddr, keyring: Option<&Keyring>, hello: ToController) -> Self {
        let stream = pki::dial(&to.to_string(), keyring).await.unwrap();
        let (incoming, mut outgoing) = rpc::split(stream).unwrap();
        outgoing.send(&hello).await.unwrap();
        Self { incoming, outgoing, call: 0 }
    }

    /// The answer; `None` if the other side hung up.
    async fn ask(&mut self, ask: MembershipAsk) -> Option<MembershipAnswer> {
        self.call += 1;
        let call = self.call;
        // A stream that is closed does not take it.
        let _ = self.outgoing.send(&ToController::Ask { call, ask }).await;
        loop {
            match timeout(PATIENCE, self.incoming.next()).await.unwrap() {
                Ok(Some(ToEngine::Answer { call: of, answer })) if of == call => {
                    return Some(answer);
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    async fn is_refused(&mut self, ask: MembershipAsk) -> bool {
        match self.ask(ask).await {
            None => true,
            Some(MembershipAnswer::Read(answer)) => answer.is_err(),
            Some(MembershipAnswer::Swapped(answer)) => answer.is_err(),
        }
    }
}

async fn record<S: Store>(store: &S) -> Membership {
    let key = Key::Membership(VOLUME);
    let (entries, _) = store.read(&[key.to_string()]).await.unwrap();
    let entry = entries.first().unwrap();
    match Record::decode(&key, &entry.value, entry.modified).unwrap() {
        Record::Membership(record) => *record,
        other => panic!("{other:?}"),
    }
}

/// A swap that leaves one replica in favour, in the name of somebody.
fn swap(mut record: Membership, owner: Option<InstanceId>) -> MembershipAsk {
    let read_at: Revision = record.revision;
    record.owner = owner;
    record.roster = model::Roster(record.roster.0 + 1);
    for healthy in record.children.values_mut().skip(1) {
        *healthy = false;
    }
    MembershipAsk::Swap { record: Box::new(record), read_at }
}

/// M-34 in part, ST-5: neither an engine without a part of the volume nor another process of the
/// node that serves it changes the record, and who has no part does not read it.
#[tokio::test]
async fn a_membership_record_is_changed_by_its_target_alone() {
    let store = Memory::default();
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let engines = TestEngine::start_all(&disks, &[controller.address]).await;
    let host = TestHost::start(&[controller.address]);
    controller.leads().await;
    controller.make_pools(&disks).await;
    make_volume(&controller).await;
    controller.publish(host.host, 1).await;
    let target = controller.until("a publication", published).await;
    let owner = engines.iter().find(|engine| engine.node == target).unwrap().process.instance;
    let before = record(&store).await;

    let stranger = hello(NodeId::from_u128(99), "x", 99);
    let mut stranger = Liar::dial(controller.address, None, stranger).await;
    assert!(stranger.is_refused(MembershipAsk::Read { volume: VOLUME }).await);
    for name in [before.owner, Some(InstanceId::from_u128(99)), None] {
        assert!(stranger.is_refused(swap(record(&store).await, name)).await, "{name:?}");
    }
    // A second process with the name and id of the target's node.
    let name = format!("n{}", target.0.as_u128());
    let mut twin = Liar::dial(controller.address, None, hello(target, &name, 98)).await;
    assert!(twin.is_refused(swap(record(&store).await, Some(owner))).await);
    drop(twin);
    let after = record(&store).await;
    assert_eq!((after.children, after.owner), (before.children, before.owner));
    controller.end().await;
}

/// OP-2, M-39: a node that is forgotten while it is connected is heard again as a new one.
#[tokio::test]
async fn an_engine_whose_record_goes_is_let_go() {
    let store = Memory::default();
    let controller = TestController::start(store.clone(), listener().await);
    controller.leads().await;
    let node = NodeId::from_u128(50);
    let mut liar = Liar::dial(controller.address, None, hello(node, "x", 50)).await;
    let known = move |seen: &Seen<'_>| seen.world.node(node).map(|_| ());
    controller.until("a node", known).await;
    let gone = [Key::Node(node), Key::name("node", "x")];
    let writes = gone.map(|key| ports::Write::Delete { key: key.to_string() }).into();
    store.commit(&ports::Txn { compares: Vec::new(), writes }).await.unwrap();
    let ended = async { while let Ok(Some(_)) = liar.incoming.next().await {} };
    timeout(PATIENCE, ended).await.expect("the session stays open");
    let _again = Liar::dial(controller.address, None, hello(node, "x", 50)).await;
    controller.until("a node again", known).await;
    controller.end().await;
}

fn ring(folder: &Path, role: Role, name: &str) -> Keyring {
    let (authority, _) = Authority::init(&folder.join("pki"), 2).unwrap();
    let peer = Peer::new(role, name).unwrap();
    let to = authority.place(&peer);
    let addresses = vec!["127.0.0.1".to_owned()];
    authority.issue(&Order { peer, addresses, days: 1, renew: false }, &to).unwrap();
    Keyring::open(Files::in_folder(&to)).unwrap()
}

/// M-34 in part, M-17: who greets with another's id is hung up on, and asks nothing before.
#[tokio::test]
async fn a_refused_engine_is_hung_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let keyring = Some(ring(folder.path(), Role::Controller, "c"));
    let (controller, handle) = controller::Controller::new(Memory::default(), &Settings::default());
    let stop = tokio_util::sync::CancellationToken::new();
    let task = tokio::spawn(controller.run(Door { listener, keyring }, stop.clone()));
    let node = NodeId::from_u128(1);
    let first = ring(folder.path(), Role::Engine, "first");
    let _first = Liar::dial(address, Some(&first), hello(node, "first", 1)).await;
    let known = move |seen: &Seen<'_>| seen.world.node(node).map(|_| ());
    timeout(PATIENCE, handle.until(known)).await.unwrap().unwrap();
    let second = ring(folder.path(), Role::Engine, "second");
    let mut second = Liar::dial(address, Some(&second), hello(node, "second", 2)).await;
    // What is told before the end does not matter; that it ends does.
    let ended = async {
        while let Ok(Some(message)) = second.incoming.next().await {
            assert!(matches!(message, ToEngine::Refused { .. }), "{message:?}");
        }
    };
    timeout(Duration::from_secs(20), ended).await.expect("a refused session stays open");
    stop.cancel();
    task.await.unwrap();
}
