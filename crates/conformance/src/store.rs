//! What every store must do, as named checks.
//!
//! A check gets a store of its own, or a namespace of its own in a shared one: it may not assume at
//! which revision it starts, nor that nobody else makes revisions.

mod leases;
mod reads;
mod transactions;
mod watches;

use core::time::Duration;

use ports::{
    Compare, Entry, Expect, Key, LeaseId, Revision, Store, StoreError, Txn, TxnOutcome, Watch,
    WatchEvent, Write,
};
use tokio::time::timeout;

/// Far longer than anything should take, so that only what never comes fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs each check on a store that `found` makes for it, and tells how many there were. Panics at
/// the first that fails, after its name was printed.
pub async fn suite<S>(implementor: &str, found: impl AsyncFn(&'static str) -> S) -> usize
where
    S: Store + Clone + 'static,
{
    let mut passed = 0;
    macro_rules! run {
        ($($area:ident: $($check:ident)*;)*) => {$($(
            let store = found(stringify!($check)).await;
            println!("store conformance: {implementor}: {}", stringify!($check));
            let check = timeout(2 * PATIENCE, $area::$check(store));
            check.await.unwrap_or_else(|_| panic!("{} hangs", stringify!($check)));
            passed += 1;
        )*)*};
    }
    run! {
        transactions:
            what_is_put_reads_back
            revisions_increase_with_every_change
            absent_holds_only_for_an_absent_key
            modified_at_holds_only_for_the_last_write
            created_at_holds_until_the_key_is_deleted
            no_compare_holds_at_revision_zero
            a_key_created_again_has_a_new_creation
            a_transaction_writes_all_its_keys_at_one_revision
            a_refused_transaction_writes_nothing
            a_refusal_names_the_first_compare_that_failed
            an_empty_transaction_changes_nothing
            deleting_an_absent_key_changes_nothing
            a_key_written_twice_in_one_transaction_is_refused
            the_largest_transaction_fits
            the_largest_value_fits
            what_is_too_large_is_named
            counting_from_many_tasks_loses_no_count;
        reads:
            several_keys_are_read_at_one_revision
            a_prefix_ends_at_its_boundary
            keys_are_ordered_by_bytes
            pages_join_to_the_whole
            pages_are_of_one_revision_while_others_write
            a_listing_in_the_past_shows_the_past
            a_listing_in_the_future_is_refused
            a_listing_below_the_compaction_is_refused
            compaction_keeps_what_is_there
            compacting_twice_is_no_error
            compacting_the_future_is_refused;
        watches:
            a_watch_from_the_past_tells_the_past
            a_watch_from_now_tells_what_follows
            a_watch_may_start_in_the_future
            a_watch_sees_only_its_prefix
            a_watch_tells_a_transaction_as_one_event
            a_watch_tells_deletions
            an_abandoned_wait_loses_no_event
            no_change_is_missed_or_repeated_while_others_write
            a_listing_and_a_watch_join_without_a_gap
            a_watch_below_the_compaction_is_refused
            a_watch_from_the_compaction_on_misses_no_deletion;
        leases:
            a_lease_that_is_over_takes_its_keys_at_one_revision
            a_renewed_lease_lives_on
            a_revoked_lease_takes_its_keys_at_once
            an_ended_lease_is_told
            a_key_written_without_its_lease_stays
            a_leader_that_lost_its_lease_is_refused
            two_leases_have_two_ids
            a_lease_of_no_time_is_refused;
    }
    passed
}

fn put(key: &str, value: impl AsRef<[u8]>) -> Write {
    Write::Put { key: key.to_owned(), value: value.as_ref().to_vec(), lease: None }
}

fn put_leased(key: &str, lease: LeaseId) -> Write {
    Write::Put { key: key.to_owned(), value: vec![], lease: Some(lease) }
}

fn delete(key: &str) -> Write {
    Write::Delete { key: key.to_owned() }
}

fn compare(key: &str, expect: Expect) -> Compare {
    Compare { key: key.to_owned(), expect }
}

async fn write<S: Store>(store: &S, writes: Vec<Write>) -> Revision {
    let outcome = store.commit(&Txn { compares: vec![], writes }).await.unwrap();
    let TxnOutcome::Committed { revision } = outcome else { panic!("{outcome:?}") };
    revision
}

/// Whether a transaction with this one compare commits. It writes the key itself.
async fn commits<S: Store>(store: &S, key: &str, expect: Expect) -> bool {
    let txn = Txn { compares: vec![compare(key, expect)], writes: vec![put(key, "committed")] };
    matches!(store.commit(&txn).await.unwrap(), TxnOutcome::Committed { .. })
}

async fn get<S: Store>(store: &S, key: &str) -> Option<Entry> {
    let (found, _) = store.read(&[key.to_owned()]).await.unwrap();
    found.into_iter().next()
}

async fn newest<S: Store>(store: &S) -> Revision {
    store.read(&["none".to_owned()]).await.unwrap().1
}

/// Every entry under `prefix` at one revision, page by page.
async fn list_all<S: Store>(
    store: &S,
    prefix: &str,
    limit: usize,
    at: Option<Revision>,
) -> (Vec<Entry>, Revision) {
    let mut page = store.list(prefix, None, limit, at).await.unwrap();
    let revision = page.revision;
    let mut entries = page.entries;
    while let Some(after) = page.next {
        page = store.list(prefix, Some(&after), limit, Some(revision)).await.unwrap();
        assert!(page.entries.len() <= limit, "no page is longer than asked for");
        assert_eq!(page.revision, revision);
        entries.append(&mut page.entries);
    }
    (entries, revision)
}

fn keys(entries: &[Entry]) -> Vec<Key> {
    entries.iter().map(|entry| entry.key.clone()).collect()
}

async fn next(watch: &mut impl Watch) -> WatchEvent {
    timeout(PATIENCE, watch.next()).await.expect("an event in time").unwrap()
}

/// Why a watch from there does not work: told when it is opened or by its first event.
async fn watch_refused<S: Store>(store: &S, prefix: &str, from: Revision) -> StoreError {
    match store.watch(prefix, from).await {
        Err(error) => error,
        Ok(mut watch) => {
            timeout(PATIENCE, watch.next()).await.expect("an answer in time").unwrap_err()
        }
    }
}
