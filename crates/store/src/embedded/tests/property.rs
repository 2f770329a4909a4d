//! The file is the machine: whatever is done to both, they answer the same.

use ports::{Compare, Expect, LeaseId};
use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Commit(Txn),
    Lease(LeaseRequest),
    Compact(Revision),
    List { at: Option<Revision>, after: Option<Key> },
    Reopen,
}

fn key() -> impl Strategy<Value = Key> {
    prop::sample::select(vec!["a", "a/b", "a/c", "ab", "b", "ü"]).prop_map(str::to_owned)
}

fn revision() -> impl Strategy<Value = Revision> {
    (0..40_u64).prop_map(Revision)
}

fn lease() -> impl Strategy<Value = LeaseId> {
    (1..5_u64).prop_map(LeaseId)
}

fn compare() -> impl Strategy<Value = Compare> {
    let expect = prop_oneof![
        Just(Expect::Absent),
        revision().prop_map(Expect::ModifiedAt),
        revision().prop_map(Expect::CreatedAt),
    ];
    (key(), expect).prop_map(|(key, expect)| Compare { key, expect })
}

fn a_write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (key(), vec(any::<u8>(), 0..50), prop::option::weighted(0.2, lease()))
            .prop_map(|(key, value, lease)| Write::Put { key, value, lease }),
        1 => key().prop_map(|key| Write::Delete { key }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let txn = (vec(compare(), 0..2), vec(a_write(), 0..4))
        .prop_map(|(compares, writes)| Operation::Commit(Txn { compares, writes }));
    let ttl = Duration::from_hours(1);
    let lease = prop_oneof![
        Just(LeaseRequest::Grant { ttl }),
        lease().prop_map(|lease| LeaseRequest::Renew { lease }),
        lease().prop_map(|lease| LeaseRequest::Revoke { lease }),
    ];
    prop_oneof![
        12 => txn,
        3 => lease.prop_map(Operation::Lease),
        1 => revision().prop_map(Operation::Compact),
        3 => (prop::option::of(revision()), prop::option::of(key()))
            .prop_map(|(at, after)| Operation::List { at, after }),
        2 => Just(Operation::Reopen),
    ]
}

async fn run(operations: Vec<Operation>) {
    let folder = folder();
    let history = Bounds { changes: 12, bytes: 1000 };
    let settings = Settings { history, rewrite_slack_bytes: 500 };
    let mut core = Core::new(history);
    let mut store = Embedded::open_with(folder.path(), settings).unwrap();
    for operation in operations {
        match &operation {
            Operation::Commit(txn) => assert_eq!(store.commit(txn).await, core.commit(txn)),
            Operation::Lease(request) => {
                let expected = core.lease(Duration::ZERO, *request);
                assert_eq!(store.lease(*request).await, expected);
            }
            Operation::Compact(before) => {
                assert_eq!(store.compact(*before).await, core.compact(*before));
            }
            Operation::List { at, after } => {
                let expected = core.list("a", after.as_deref(), 2, *at);
                assert_eq!(store.list("a", after.as_deref(), 2, *at).await, expected);
            }
            Operation::Reopen => {
                drop(store);
                store = Embedded::open_with(folder.path(), settings).unwrap();
                assert_eq!(store.opening().repairs, []);
            }
        }
        assert_eq!(all_of(&store.core()), all_of(&core), "after {operation:?}");
    }
}

proptest! {
    // Every case syncs dozens of times, at milliseconds each.
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// ST-1: the embedded store has the semantics of the machine, also across reopening.
    #[test]
    fn the_file_answers_as_the_machine_does(operations in vec(operation(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(operations));
    }
}
