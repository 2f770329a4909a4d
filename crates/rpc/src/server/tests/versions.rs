//! Engines and hosts of other versions.

use super::*;

/// A version that speaks nothing that this one knows.
const FAR: Speaks = Speaks { oldest: 7, newest: 9 };

fn of_a_far_version(hello: ToController) -> ToController {
    match hello {
        ToController::Hello(hello) => ToController::Hello(Hello { speaks: FAR, ..hello }),
        ToController::HostHello(hello) => {
            ToController::HostHello(HostHello { speaks: FAR, ..hello })
        }
        other => other,
    }
}

/// OP-6: who speaks no common protocol is told which side is to be upgraded, and never heard.
#[tokio::test]
async fn who_speaks_no_common_protocol_is_told_whom_to_upgrade() {
    let (address, mut hearing) = controller().await;
    for (hello, kind) in [(hello(), "engine"), (host_hello(), "host")] {
        let (mut incoming, mut outgoing) = dial(address).await;
        outgoing.send(&of_a_far_version(hello)).await.unwrap();
        outgoing.send(&ToController::Heartbeat).await.unwrap();
        let Some(ToEngine::Refused { reason }) = incoming.next().await.unwrap() else {
            panic!("no last word");
        };
        assert!(reason.contains(kind) && reason.contains("upgrade the controllers"), "{reason}");
    }
    assert!(hearing.try_recv().is_err());
}

/// OP-6: a message that this version does not know, and a field, are passed over; the stream goes
/// on.
#[tokio::test]
async fn what_only_a_newer_engine_says_is_passed_over() {
    let (address, mut hearing) = controller().await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (_incoming, mut outgoing) = split::<ToEngine, serde_json::Value>(stream).unwrap();
    let mut greeting = serde_json::to_value(hello()).unwrap();
    greeting["Hello"]["mood"] = "good".into();
    outgoing.send(&greeting).await.unwrap();
    let What::Opened { to: _held, .. } = next(&mut hearing).await else { panic!("no engine") };
    outgoing.send(&serde_json::json!({ "Song": { "verse": 3 } })).await.unwrap();
    outgoing.send(&serde_json::json!("Song")).await.unwrap();
    outgoing.send(&serde_json::json!("Heartbeat")).await.unwrap();
    assert!(matches!(next(&mut hearing).await, What::Heartbeat));
}

/// OP-6: a greeting that names no protocol is one of the first.
#[tokio::test]
async fn a_greeting_without_a_protocol_is_one_of_the_first() {
    let (address, mut hearing) = controller().await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (_incoming, mut outgoing) = split::<ToEngine, serde_json::Value>(stream).unwrap();
    let mut greeting = serde_json::to_value(hello()).unwrap();
    greeting["Hello"].as_object_mut().unwrap().remove("speaks").unwrap();
    outgoing.send(&greeting).await.unwrap();
    let What::Opened { hello, .. } = next(&mut hearing).await else { panic!("not heard") };
    assert_eq!(hello.speaks, Speaks { oldest: 1, newest: 1 });
}
