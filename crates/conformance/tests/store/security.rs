//! etcd with TLS and with users.

use std::{fs, path::Path};

use conformance::etcd::Member;
use ports::{LeaseRequest, Store, StoreError, Txn, TxnOutcome, Watch, Write};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use store::etcd::{Credentials, Etcd, Tls};

use super::{alone, config, etcd_for};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, as PEM.
fn issue(authority: &Authority, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.extended_key_usages = vec![usage];
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(flag, value)| format!("{flag}={value}")).collect()
}

/// Writes, watches and leases: each goes over a connection of another kind.
async fn works(store: &Etcd) {
    let put = Write::Put { key: "k".to_owned(), value: b"v".to_vec(), lease: None };
    let outcome = store.commit(&Txn { compares: vec![], writes: vec![put] }).await.unwrap();
    let TxnOutcome::Committed { revision } = outcome else { panic!("{outcome:?}") };
    let mut watch = store.watch("", revision).await.unwrap();
    assert_eq!(watch.next().await.unwrap().revision, revision);
    let ttl = core::time::Duration::from_secs(10);
    let lease = store.lease(LeaseRequest::Grant { ttl }).await.unwrap().lease;
    store.lease(LeaseRequest::Renew { lease }).await.unwrap();
    store.lease(LeaseRequest::Revoke { lease }).await.unwrap();
}

/// Only who has a certificate of the cluster's authority gets in, and only an etcd
/// that has one is believed.
#[tokio::test]
async fn etcd_over_tls_asks_for_certificates_on_both_sides() {
    let Some(etcd) = etcd_for("etcd TLS") else { return };
    let folder = tempfile::tempdir().unwrap();
    let ours = authority();
    let ca = ours.pem();
    let (certificate, key) = issue(&ours, "127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
    let identity = issue(&ours, "controller", ExtendedKeyUsagePurpose::ClientAuth);
    let member = Member::alone(
        &etcd,
        &flags(&[
            ("--cert-file", &write(folder.path(), "certificate", &certificate)),
            ("--key-file", &write(folder.path(), "key", &key)),
            ("--trusted-ca-file", &write(folder.path(), "ca", &ca)),
            ("--client-cert-auth", "true"),
        ]),
    );
    let mut config = config(&[&member], "tls");
    let tls = Tls { ca, identity: Some(identity), domain: None };
    config.tls = Some(tls.clone());
    works(&Etcd::connect(&config).await.unwrap()).await;

    config.tls = Some(Tls { identity: None, ..tls.clone() });
    let nobody = Etcd::connect(&config).await.unwrap_err();
    assert!(matches!(nobody, StoreError::Forbidden { .. }), "{nobody}");

    config.tls = Some(Tls { ca: authority().pem(), ..tls });
    let stranger = Etcd::connect(&config).await.unwrap_err();
    let StoreError::Forbidden { reason } = &stranger else { panic!("{stranger}") };
    assert!(reason.contains("certificate"), "{reason}");

    config.tls = None;
    let without = Etcd::connect(&config).await.unwrap_err();
    assert!(matches!(without, StoreError::Invalid { .. }), "{without}");
}

/// `role` may read and write under `/holdfast/users/`, in etcd's base64.
fn enable_users(member: &Member) {
    member.post("/v3/auth/user/add", r#"{"name":"root","password":"root-secret"}"#);
    member.post("/v3/auth/role/add", r#"{"name":"root"}"#);
    member.post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    member.post("/v3/auth/user/add", r#"{"name":"holdfast","password":"secret"}"#);
    member.post("/v3/auth/role/add", r#"{"name":"holdfast"}"#);
    // "/holdfast/users/" to "/holdfast/users0", which is the first key behind them.
    let permission = r#"{"name":"holdfast","perm":{"permType":"READWRITE",
        "key":"L2hvbGRmYXN0L3VzZXJzLw==","range_end":"L2hvbGRmYXN0L3VzZXJzMA=="}}"#;
    member.post("/v3/auth/role/grant", permission);
    member.post("/v3/auth/user/grant", r#"{"user":"holdfast","role":"holdfast"}"#);
    member.post("/v3/auth/enable", "{}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_with_users_asks_for_the_password() {
    let Some(etcd) = etcd_for("etcd users") else { return };
    let mut member = alone(&etcd);
    let mut config = config(&[&member], "users");
    let credentials = Credentials { user: "holdfast".to_owned(), password: "secret".to_owned() };
    assert!(!format!("{credentials:?}").contains("secret"), "no password reaches a log");
    config.credentials = Some(credentials.clone());
    works(&Etcd::connect(&config).await.unwrap()).await;

    enable_users(&member);
    let store = Etcd::connect(&config).await.unwrap();
    works(&store).await;
    // A restarted member knows none of the tokens that it gave.
    tokio::task::block_in_place(|| member.restart());
    works(&store).await;

    let mut wrong = config.clone();
    wrong.credentials = Some(Credentials { password: "wrong".to_owned(), ..credentials });
    let refused = Etcd::connect(&wrong).await.unwrap_err();
    assert!(matches!(refused, StoreError::Forbidden { .. }), "{refused}");
    wrong.credentials = None;
    let refused = Etcd::connect(&wrong).await.unwrap_err();
    assert!(matches!(refused, StoreError::Forbidden { .. }), "{refused}");
    let mut elsewhere = config.clone();
    elsewhere.namespace = "/holdfast/others/".to_owned();
    let refused = Etcd::connect(&elsewhere).await.unwrap_err();
    assert!(matches!(refused, StoreError::Forbidden { .. }), "{refused}");
}
