//! What lies in the store, and what only the next release would put there.

use std::collections::BTreeSet;

use ports::{Compare, Expect, Store as _, Txn, TxnOutcome, Write};
use rest::RecordShown;
use serde_json::Value;
use store::etcd::{Config, Etcd};

use super::*;

/// The field that only the other build writes.
const FIELD: &str = "next_build";

/// Parts of records that live as long as the record.
const LASTING: [&str; 9] = [
    "",
    "/meta",
    "/spec",
    "/spec/policy",
    "/spec/topology",
    "/layout",
    "/layout/replicas/0",
    "/layout/replicas/1",
    "/layout/replicas/2",
];

impl Rolling {
    pub(crate) async fn records(&self) -> Vec<RecordShown> {
        self.asking.all("/v1/records").await.unwrap()
    }

    /// Where there is something that this build does not know: key and part.
    pub(crate) async fn unknown(&self) -> BTreeSet<(String, &'static str)> {
        let mut found = BTreeSet::new();
        for record in self.records().await {
            let at = LASTING.into_iter().filter(|part| {
                let value = record.value.pointer(part);
                value.and_then(Value::as_object).is_some_and(|part| part.contains_key(FIELD))
            });
            found.extend(at.map(|part| (record.key.clone(), part)));
        }
        found
    }

    pub(crate) async fn etcd(&self) -> Etcd {
        let url = self.cluster.binary.store.strip_prefix("etcd:").unwrap().to_owned();
        Etcd::connect(&Config::new(vec![url], "/holdfast/default/".into())).await.unwrap()
    }
}

/// A record of a kind that this build has never heard of.
pub(crate) async fn put_stranger(etcd: &Etcd) {
    let put = Write::Put { key: "season/1".into(), value: b"{\"warm\":true}".into(), lease: None };
    etcd.commit(&Txn { compares: vec![], writes: vec![put] }).await.unwrap();
}

pub(crate) async fn has_stranger(etcd: &Etcd) -> bool {
    !etcd.read(&["season/1".to_owned()]).await.unwrap().0.is_empty()
}

/// What the next release does when everybody has it: from now on its records may be such as this
/// build cannot read.
pub(crate) async fn raise_schema(etcd: &Etcd) {
    let key = model::Key::Cluster.to_string();
    let (found, _) = etcd.read(std::slice::from_ref(&key)).await.unwrap();
    let mut record: Value = serde_json::from_slice(&found[0].value).unwrap();
    assert_eq!(record["schema"], 1);
    record["schema"] = 2.into();
    let expect = Expect::ModifiedAt(found[0].modified);
    let value = serde_json::to_vec(&record).unwrap();
    let txn = Txn {
        compares: vec![Compare { key: key.clone(), expect }],
        writes: vec![Write::Put { key, value, lease: None }],
    };
    let outcome = etcd.commit(&txn).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Committed { .. }), "{outcome:?}");
}
