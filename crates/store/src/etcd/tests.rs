//! What needs no etcd: what its words mean, and what is refused before it is asked.

use ports::{Revision, StoreError};
use tonic::{Code, ConnectError, Status};

use super::{
    Config, Credentials, Etcd, Tls,
    convert::Namespace,
    failure::{Failure, Refusal, is_distrust},
    wire::{Event, KeyValue, event::EventType},
};

fn failure(code: Code, text: &str) -> Failure {
    Failure::of(&Status::new(code, text))
}

#[test]
fn only_what_surely_did_not_happen_is_not_done() {
    let never_sent = Status::from_error(Box::new(ConnectError("connection refused".into())));
    assert!(matches!(Failure::of(&never_sent), Failure::NotDone(_)));
    let no_leader = "etcdserver: no leader";
    assert_eq!(failure(Code::Unavailable, no_leader), Failure::NotDone(no_leader.to_owned()));
    for text in ["etcdserver: request timed out", "etcdserver: leader changed", "broken pipe", ""] {
        let unanswered = failure(Code::Unavailable, text);
        assert!(matches!(unanswered, Failure::Unanswered(_)), "{text}");
    }
    for code in [Code::Unknown, Code::Internal, Code::Cancelled, Code::DeadlineExceeded] {
        assert!(matches!(failure(code, "any"), Failure::Unanswered(_)), "{code:?}");
    }
}

#[test]
fn refusals_are_told_apart() {
    let compacted = "etcdserver: mvcc: required revision has been compacted";
    let future = "etcdserver: mvcc: required revision is a future revision";
    let lease = "etcdserver: requested lease not found";
    let password = "etcdserver: authentication failed, invalid user ID or password";
    let refused = |code, text| match failure(code, text) {
        Failure::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Code::OutOfRange, compacted), Refusal::Compacted);
    assert_eq!(refused(Code::OutOfRange, future), Refusal::Future);
    assert_eq!(refused(Code::NotFound, lease), Refusal::LeaseEnded);
    assert!(matches!(refused(Code::InvalidArgument, password), Refusal::Forbidden(_)));
    assert!(matches!(refused(Code::PermissionDenied, "no"), Refusal::Forbidden(_)));
    assert!(matches!(refused(Code::InvalidArgument, "other"), Refusal::Invalid(_)));
    assert_eq!(failure(Code::Unauthenticated, "old"), Failure::TokenEnded);
    let changed = "etcdserver: revision of auth store is old";
    assert_eq!(failure(Code::InvalidArgument, changed), Failure::TokenEnded);
}

/// TLS 1.3: the client may write before it has read why the server does not take it.
#[test]
fn a_hang_up_once_the_connection_stands_is_distrust_whoever_notices_it() {
    for distrust in [
        "received fatal alert: CertificateRequired",
        "invalid peer certificate: UnknownIssuer",
        "connection error: stream closed because of a broken pipe",
        "Connection reset by peer (os error 104)",
        "Broken pipe (os error 32)",
        "connection closed before message completed",
        "tls handshake: unexpected EOF during handshake",
    ] {
        assert!(is_distrust(distrust), "{distrust}");
    }
    for away in ["tcp connect error: Connection refused (os error 111)", "no answer in time"] {
        assert!(!is_distrust(away), "{away}");
    }
}

#[test]
fn the_end_of_a_prefix_is_the_first_key_behind_it() {
    let namespace = Namespace("/n/".to_owned());
    assert_eq!(namespace.end_of("a/"), b"/n/a0");
    assert_eq!(namespace.end_of(""), b"/n0");
    assert!(namespace.end_of("\u{10ffff}") > namespace.key("\u{10ffff}zzz"));
}

#[test]
fn events_are_grouped_by_revision_and_begin_where_asked() {
    let namespace = Namespace("/n/".to_owned());
    let event = |key: &str, at: i64| {
        let kv = KeyValue { key: namespace.key(key), mod_revision: at, ..KeyValue::default() };
        Event { r#type: EventType::Delete.into(), kv: Some(kv) }
    };
    let told = vec![event("old", 4), event("a", 5), event("b", 5), event("a", 7)];
    let events = namespace.events(told, Revision(5)).unwrap();
    let shape: Vec<_> =
        events.iter().map(|event| (event.revision.0, event.changes.len())).collect();
    assert_eq!(shape, [(5, 2), (7, 1)]);
    let foreign = KeyValue { key: b"/other".to_vec(), mod_revision: 9, ..KeyValue::default() };
    let foreign = Event { r#type: 0, kv: Some(foreign) };
    let refused = namespace.events(vec![foreign], Revision(1)).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
}

#[tokio::test]
async fn a_config_that_cannot_work_is_refused_before_anything_is_sent() {
    let with = |endpoint: &str, namespace: &str| {
        Config::new(vec![endpoint.to_owned()], namespace.to_owned())
    };
    let none = Config::new(vec![], "/n/".to_owned());
    let plain = "http://127.0.0.1:1";
    for config in [none, with("not a uri", "/n/"), with("https://e:1", "/n/"), with(plain, "/n")] {
        let refused = Etcd::connect(&config).await.unwrap_err();
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused}");
    }
}

#[test]
fn no_secret_reaches_a_log() {
    let mut config = Config::new(vec![], "/n/".to_owned());
    let secret = || "hush".to_owned();
    config.credentials = Some(Credentials { user: "me".to_owned(), password: secret() });
    let identity = Some((secret(), secret()));
    config.tls = Some(Tls { ca: String::new(), identity, domain: None });
    assert!(!format!("{config:?}").contains("hush"));
}
