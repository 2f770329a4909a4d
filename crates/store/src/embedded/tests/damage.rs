//! Damage anywhere in a file is refused, or mended without losing anything.

use super::*;

/// Small and the same in every run: a failure names its number.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// A file with entries, leases, history and appended records, and what it says.
async fn sound_file(folder: &Path) -> (Vec<u8>, Core) {
    let history = Bounds { changes: 10, bytes: 1 << 20 };
    let settings = Settings { history, rewrite_slack_bytes: 2048 };
    let store = Embedded::open_with(folder, settings).unwrap();
    let ttl = Duration::from_hours(1);
    let lease = store.lease(LeaseRequest::Grant { ttl }).await.unwrap().lease;
    let key = "leader".to_owned();
    write(&store, vec![Write::Put { key, value: b"me".to_vec(), lease: Some(lease) }]).await;
    for number in 0..60_u8 {
        let key = format!("volumes/{}", number % 9);
        write(&store, vec![put(&key, &[number; 90]), put("counter", &[number])]).await;
    }
    write(&store, vec![Write::Delete { key: "volumes/3".to_owned() }]).await;
    drop(store);
    (fs::read(folder.join("store")).unwrap(), loaded(folder))
}

/// The one check: refused as damaged, or all there.
fn judge(path: &Path, bytes: &[u8], sound: &Core, case: &str) -> bool {
    fs::write(path, bytes).unwrap();
    match load(path, Bounds::default()) {
        Err(StoreError::Damaged { reason }) => {
            assert!(reason.contains("store") && reason.contains("restore a backup"), "{reason}");
            false
        }
        Err(error) => panic!("{case}: {error}"),
        Ok(loaded) => {
            assert_eq!(all_of(&loaded.core), all_of(sound), "{case}");
            true
        }
    }
}

#[tokio::test]
async fn no_flipped_byte_goes_unnoticed() {
    let folder = folder();
    let (bytes, sound) = sound_file(folder.path()).await;
    let path = folder.path().join("damaged-store");
    let mut random = Random(1);
    let mut refused = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.below(8);
        let whole = judge(&path, &damaged, &sound, &format!("byte {at}"));
        // Only marks, which are there twice, and the unused space around them may break unnoticed.
        assert_eq!(whole, (512..4096).contains(&at), "byte {at}");
        refused += usize::from(!whole);
    }
    println!("{refused} of {} flipped bytes refused, the others lose nothing", bytes.len());
}

#[tokio::test]
async fn no_lost_end_goes_unnoticed() {
    let folder = folder();
    let (bytes, sound) = sound_file(folder.path()).await;
    let path = folder.path().join("damaged-store");
    for length in 0..bytes.len() {
        let whole = judge(&path, &bytes[..length], &sound, &format!("cut to {length}"));
        assert!(!whole, "cut to {length}");
    }
}

#[tokio::test]
async fn no_mixture_of_damage_opens_to_wrong_data() {
    let folder = folder();
    let (bytes, sound) = sound_file(folder.path()).await;
    let path = folder.path().join("damaged-store");
    let mut random = Random(2);
    let mut refused = 0;
    for case in 0..2000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(3) {
            let (at, length) = (random.below(damaged.len()), 1 + random.below(600));
            let end = (at + length).min(damaged.len());
            match random.below(4) {
                0 => damaged[at..end].fill(0),
                1 => damaged[at..end].iter_mut().for_each(|byte| *byte ^= 0x55),
                2 => drop(damaged.drain(at..end)),
                _ => {
                    let copied = damaged[at..end].to_vec();
                    damaged.splice(at..at, copied);
                }
            }
        }
        refused += usize::from(!judge(&path, &damaged, &sound, &format!("case {case}")));
    }
    println!("{refused} of 2000 damaged files refused, the others lose nothing");
    assert!(refused > 1000);
}

/// A power cut during a sync keeps any of the sectors that were on their way, and the new mark is
/// not among them: what was synced before is there, and of the batch a first part or nothing.
#[tokio::test]
async fn a_power_cut_keeps_all_that_was_synced() {
    let folder = folder();
    let (synced, mut core) = sound_file(folder.path()).await;
    let (mut file, ..) = StoreFile::open(folder.path(), Bounds::default()).unwrap();
    let mut possible = vec![all_of(&core)];
    let mut batch = Vec::new();
    for number in 0..4_u8 {
        let writes = vec![put("volumes/3", &[number; 700]), put("counter", &[number])];
        let record = core.decide_commit(&Txn { compares: vec![], writes }).unwrap().1.unwrap();
        core.apply(Duration::ZERO, &record);
        batch.push(record);
        possible.push(all_of(&core));
    }
    let _never_synced = file.append(&batch).unwrap();
    let whole = fs::read(folder.path().join("store")).unwrap();
    let path = folder.path().join("cut-store");
    let mut random = Random(3);
    let mut kept = vec![0; possible.len()];
    for case in 0..2000 {
        let mut left = whole.clone();
        for (number, sector) in left.chunks_mut(512).enumerate() {
            let start = number * 512;
            let unsynced = start.max(synced.len()).min(start + sector.len()) - start;
            if random.below(8) == 0 {
                sector[unsynced..].fill(0);
            }
        }
        // Half of the time the whole length had reached the disk.
        left.truncate(synced.len() + random.below(2 * (whole.len() - synced.len())));
        if random.below(2) == 0 {
            left = whole[..left.len()].to_vec();
        }
        fs::write(&path, &left).unwrap();
        let found = all_of(&load(&path, Bounds::default()).unwrap().core);
        let at = possible.iter().position(|state| *state == found);
        kept[at.unwrap_or_else(|| panic!("case {case}: a state that never was"))] += 1;
    }
    println!("records of the batch that survived, by number: {kept:?}");
    assert!(kept.iter().all(|count| *count > 0), "{kept:?}");
}

/// Through the front door: opening says no and leaves the file as it is.
#[tokio::test]
async fn opening_a_damaged_store_is_refused_and_changes_nothing() {
    let folder = folder();
    let (mut bytes, _) = sound_file(folder.path()).await;
    let at = bytes.len() - 30;
    bytes[at] ^= 4;
    let path = folder.path().join("store");
    fs::write(&path, &bytes).unwrap();
    let refused = Embedded::open(folder.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let checked = check(folder.path()).unwrap_err();
    assert_eq!(checked, refused);
}
