//! Processes that are started while those they need are away.

use std::collections::BTreeMap;

use super::*;

/// What each process has written to its log from now on.
struct Logs(BTreeMap<Member, usize>);

impl Logs {
    fn from_now(test: &Stage) -> Self {
        let members = test.cluster.members().into_iter();
        Self(members.map(|member| (member, read(test, member).len())).collect())
    }

    async fn tell(&self, test: &Stage, member: Member, words: &str) {
        until(&format!("{words:?} from {member}"), PATIENCE, || async {
            let log = read(test, member);
            let new = log.get(self.0[&member]..).unwrap_or_default();
            Ok(new.contains(words).then_some(()))
        })
        .await
        .unwrap();
    }
}

fn read(test: &Stage, member: Member) -> String {
    std::fs::read_to_string(test.cluster.folder.log(member)).unwrap_or_default()
}

/// RS-1, RS-3, RS-4: engines and a host that find no controller, and then controllers that find no
/// etcd, say so and wait; nobody must be started again when the store comes at last.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_before_the_store_wait_for_it() {
    if conformance::etcd::installed("processes that start before etcd").is_none() {
        return;
    }
    let mut test = Stage::start_with(Store::Etcd, &[]).await;
    let place = test.attached("v", 3).await;
    for member in test.cluster.members() {
        test.cluster.kill(member).unwrap();
    }
    let logs = Logs::from_now(&test);

    for member in test.engines().into_iter().chain([Member::Host(1)]) {
        test.cluster.start(member).unwrap();
        logs.tell(&test, member, "it is tried until one answers").await;
    }
    logs.tell(&test, Member::Engine(1), "etcd is away").await;
    for member in test.controllers() {
        test.cluster.start(member).unwrap();
        logs.tell(&test, member, "etcd is away").await;
    }
    assert_eq!(test.cluster.ended().unwrap(), []);

    test.cluster.start(Member::Etcd).unwrap();
    test.judge([place]).await;
    assert_eq!(test.cluster.ended().unwrap(), []);
}
