//! Each way to learn, or not to learn, what became of a commit.

use std::time::Duration;

use model::{Key, NodeId, Record};
use ports::Store;
use store::memory::Memory;

use super::*;

const ID: CommitId = CommitId(1);

fn key() -> Key {
    Key::name("node", "a")
}

fn txn(read_at: Revision) -> model::Txn {
    model::Txn::default().put(key(), Record::Name(NodeId::from_u128(1).to_string()), read_at)
}

fn unknown() -> Result<TxnOutcome, StoreError> {
    Err(StoreError::Unknown { waited: Duration::from_secs(1) })
}

async fn read(store: &Memory) -> Result<(Vec<Entry>, Revision), StoreError> {
    store.read(&[key().to_string()]).await
}

fn never(_: Revision) -> bool {
    false
}

#[tokio::test]
async fn an_unanswered_commit_that_happened_is_found_committed() {
    let (store, mut commits) = (Memory::default(), Commits::default());
    let sent = commits.begin(ID, &txn(Revision::ZERO));
    let outcome = store.commit(&sent).await.unwrap();
    assert!(matches!(commits.answered(ID, &unknown()), Next::Unknown(_)));
    let TxnOutcome::Committed { revision } = outcome else { panic!("refused") };
    let next = commits.looked(ID, &read(&store).await, never);
    assert_eq!(next, Next::Conclude(Outcome::Committed { revision }));
}

#[tokio::test]
async fn an_unanswered_commit_that_did_not_happen_is_sent_again() {
    let (store, mut commits) = (Memory::default(), Commits::default());
    let sent = commits.begin(ID, &txn(Revision::ZERO));
    commits.answered(ID, &unknown());
    assert_eq!(commits.looked(ID, &read(&store).await, never), Next::Send(sent));
}

#[tokio::test]
async fn a_copy_refused_by_its_own_first_try_is_looked_at_and_not_believed() {
    let (store, mut commits) = (Memory::default(), Commits::default());
    let sent = commits.begin(ID, &txn(Revision::ZERO));
    store.commit(&sent).await.unwrap();
    commits.answered(ID, &unknown());
    let refused = store.commit(&sent).await;
    assert!(matches!(refused, Ok(TxnOutcome::Refused { .. })));
    assert!(matches!(commits.answered(ID, &refused), Next::Look(_)));
    let next = commits.looked(ID, &read(&store).await, never);
    assert!(matches!(next, Next::Conclude(Outcome::Committed { .. })));
}

#[tokio::test]
async fn a_commit_that_was_overwritten_is_told_by_the_watch() {
    let (store, mut commits) = (Memory::default(), Commits::default());
    let sent = commits.begin(ID, &txn(Revision::ZERO));
    store.commit(&sent).await.unwrap();
    commits.answered(ID, &unknown());
    let other = ports::Write::put(key().to_string(), b"\"x\"".to_vec());
    store.commit(&ports::Txn { compares: vec![], writes: vec![other] }).await.unwrap();
    let found = read(&store).await;
    assert!(matches!(commits.looked(ID, &found, never), Next::LookLater(_)));
    let mut watch = store.watch("", Revision(1)).await.unwrap();
    let event = ports::Watch::next(&mut watch).await.unwrap();
    let revision = event.revision;
    commits.look_in(&event);
    let next = commits.looked(ID, &found, never);
    assert_eq!(next, Next::Conclude(Outcome::Committed { revision }));
}

#[tokio::test]
async fn a_commit_that_lost_its_race_is_refused_once_the_watch_has_shown_all() {
    let (store, mut commits) = (Memory::default(), Commits::default());
    commits.begin(ID, &txn(Revision::ZERO));
    let other = ports::Write::put(key().to_string(), b"\"x\"".to_vec());
    store.commit(&ports::Txn { compares: vec![], writes: vec![other] }).await.unwrap();
    commits.answered(ID, &unknown());
    let found = read(&store).await;
    assert!(matches!(commits.looked(ID, &found, never), Next::LookLater(_)));
    assert_eq!(commits.looked(ID, &found, |_| true), Next::Conclude(Outcome::Refused));
    assert_eq!(commits.looked(ID, &found, |_| true), Next::Nothing);
}

#[test]
fn nothing_was_written_is_never_said_of_a_commit_whose_first_copy_may_have_been() {
    let mut commits = Commits::default();
    commits.begin(ID, &txn(Revision::ZERO));
    let away = || Err(StoreError::Unavailable { reason: "away".into() });
    commits.answered(ID, &unknown());
    assert!(matches!(commits.answered(ID, &away()), Next::LookLater(_)));
    commits.begin(CommitId(2), &txn(Revision::ZERO));
    let next = commits.answered(CommitId(2), &away());
    assert_eq!(next, Next::Conclude(Outcome::Unavailable));
}

/// LC-5: what was deleted stays deleted, though a create of it was on its way twice.
#[tokio::test]
async fn a_commit_is_not_sent_again_after_its_record_came_and_went() {
    let (store, mut commits) = (Memory::default(), Commits::default());
    commits.begin(ID, &txn(Revision::ZERO));
    commits.answered(ID, &unknown());
    let key = key().to_string();
    let made = ports::Write::put(key.clone(), b"\"x\"".to_vec());
    let gone = ports::Write::delete(key);
    for write in [made, gone] {
        store.commit(&ports::Txn { compares: vec![], writes: vec![write] }).await.unwrap();
    }
    let mut watch = store.watch("", Revision(1)).await.unwrap();
    for _ in 0..2 {
        commits.look_in(&ports::Watch::next(&mut watch).await.unwrap());
    }
    let found = read(&store).await;
    assert_eq!(commits.looked(ID, &found, |_| true), Next::Conclude(Outcome::Refused));
}
