//! An engine's end against the controller's end, over real sockets.

use model::{InstanceId, Membership, NodeId, ReplicaId, VolumeId};
use ports::{Store, Txn, Write};
use store::{
    Direct,
    memory::{Bounds, Memory},
};

use tokio::net::TcpListener;

use super::*;

const VOLUME: VolumeId = VolumeId::from_u128(7);

mod strangers;
mod versions;

async fn controller() -> (SocketAddr, mpsc::Receiver<Heard>) {
    controller_with(None).await
}

async fn controller_with(keyring: Option<Keyring>) -> (SocketAddr, mpsc::Receiver<Heard>) {
    let store = Memory::new(Bounds::default());
    let record = Membership::founded(VOLUME, [ReplicaId::from_u128(1)]);
    let key = model::Key::Membership(VOLUME).to_string();
    let value = model::Record::Membership(Box::new(record)).encode();
    let put = Write::Put { key, value, lease: None };
    store.commit(&Txn { compares: vec![], writes: vec![put] }).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, hearing) = mpsc::channel(16);
    let memberships = move |_: &Hello, _: Option<&Peer>| Direct(store.clone());
    tokio::spawn(serve(Door { listener, keyring }, memberships, heard));
    (address, hearing)
}

async fn dial(to: SocketAddr) -> (Receiver<ToEngine>, Sender<ToController>) {
    split(TcpStream::connect(to).await.unwrap()).unwrap()
}

fn hello() -> ToController {
    ToController::Hello(Hello {
        node: NodeId::from_u128(1),
        name: "a".into(),
        address: "127.0.0.1:4420".into(),
        instance: InstanceId::from_u128(2),
        version: "0.1.0".into(),
        speaks: Speaks::OWN,
    })
}

async fn next(hearing: &mut mpsc::Receiver<Heard>) -> What {
    hearing.recv().await.unwrap().what
}

#[tokio::test]
async fn an_engine_that_hangs_up_is_heard_at_once() {
    let (address, mut hearing) = controller().await;
    let (incoming, mut outgoing) = dial(address).await;
    outgoing.send(&hello()).await.unwrap();
    let What::Opened { to: _held, .. } = next(&mut hearing).await else { panic!("no engine") };
    outgoing.send(&ToController::Heartbeat).await.unwrap();
    assert!(matches!(next(&mut hearing).await, What::Heartbeat));
    drop((incoming, outgoing));
    assert!(matches!(next(&mut hearing).await, What::Closed));
}

#[tokio::test]
async fn who_does_not_say_who_it_is_is_never_heard() {
    let (address, mut hearing) = controller().await;
    let (mut incoming, mut outgoing) = dial(address).await;
    outgoing.send(&ToController::Heartbeat).await.unwrap();
    assert!(matches!(incoming.next().await, Ok(None) | Err(_)));
    assert!(hearing.try_recv().is_err());
}

/// ST-5.
#[tokio::test]
async fn a_membership_record_is_read_and_swapped_through_the_controller() {
    let (address, mut hearing) = controller().await;
    let (mut incoming, mut outgoing) = dial(address).await;
    outgoing.send(&hello()).await.unwrap();
    let What::Opened { to: _held, .. } = next(&mut hearing).await else { panic!("no engine") };
    let ask = MembershipAsk::Read { volume: VOLUME };
    outgoing.send(&ToController::Ask { call: 1, ask }).await.unwrap();
    let Some(ToEngine::Answer { call: 1, answer: MembershipAnswer::Read(Ok(Some(found))) }) =
        incoming.next().await.unwrap()
    else {
        panic!("no record");
    };
    let (mut record, read_at) = found;
    record.clean = false;
    let swap = MembershipAsk::Swap { record, read_at };
    for (call, works) in [(2, true), (3, false)] {
        outgoing.send(&ToController::Ask { call, ask: swap.clone() }).await.unwrap();
        let Some(ToEngine::Answer { call: of, answer: MembershipAnswer::Swapped(answer) }) =
            incoming.next().await.unwrap()
        else {
            panic!("no answer");
        };
        assert_eq!((of, answer.is_ok()), (call, works));
    }
}

/// M-34 in part: a session that the controller lets go ends, and answers nothing before.
#[tokio::test]
async fn an_engine_that_the_controller_lets_go_is_hung_up_on() {
    let (address, mut hearing) = controller().await;
    let (mut incoming, mut outgoing) = dial(address).await;
    outgoing.send(&hello()).await.unwrap();
    let What::Opened { to, .. } = next(&mut hearing).await else { panic!("no engine") };
    to.send(ToEngine::Refused { reason: "another".into() }).await.unwrap();
    drop(to);
    let ask = MembershipAsk::Read { volume: VOLUME };
    outgoing.send(&ToController::Ask { call: 1, ask }).await.unwrap();
    let refused = Some(ToEngine::Refused { reason: "another".into() });
    assert_eq!(incoming.next().await.unwrap(), refused);
    assert!(matches!(incoming.next().await, Ok(None) | Err(_)));
}

fn host_hello() -> ToController {
    ToController::HostHello(HostHello {
        host: model::HostId::from_u128(9),
        name: "h".into(),
        nqn: "nqn.2026-01.holdfast:h".into(),
        node: None,
        instance: InstanceId::from_u128(3),
        version: "0.1.0".into(),
        speaks: Speaks::OWN,
    })
}

#[tokio::test]
async fn a_host_is_heard_and_can_be_told() {
    let (address, mut hearing) = controller().await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut incoming, mut outgoing) = split::<ToHost, ToController>(stream).unwrap();
    outgoing.send(&host_hello()).await.unwrap();
    let What::HostOpened { hello, to, .. } = next(&mut hearing).await else { panic!("no host") };
    assert_eq!(hello.name, "h");
    to.send(ToHost::Inventory).await.unwrap();
    assert_eq!(incoming.next().await.unwrap(), Some(ToHost::Inventory));
}

/// ST-5: membership records belong to engines.
#[tokio::test]
async fn a_host_that_asks_for_a_membership_record_is_hung_up_on() {
    let (address, mut hearing) = controller().await;
    let (mut incoming, mut outgoing) = dial(address).await;
    outgoing.send(&host_hello()).await.unwrap();
    assert!(matches!(next(&mut hearing).await, What::HostOpened { .. }));
    let ask = MembershipAsk::Read { volume: VOLUME };
    outgoing.send(&ToController::Ask { call: 1, ask }).await.unwrap();
    assert!(matches!(incoming.next().await, Ok(None) | Err(_)));
    assert!(matches!(next(&mut hearing).await, What::Closed));
}
