//! Making an authority and certificates: once, for their owner alone, and with clear refusals.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;

fn order(role: Role, name: &str, addresses: &[&str]) -> Order {
    let peer = Peer::new(role, name).unwrap();
    let addresses = addresses.iter().map(|text| (*text).to_owned()).collect();
    Order { peer, addresses, days: 30, renew: false }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_authority_is_made_once_and_its_key_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("pki");
    let (first, outcome) = Authority::init(&at, 10).unwrap();
    assert_eq!(outcome, Outcome::Made);
    assert_eq!((mode(&at), mode(&at.join(AUTHORITY_KEY))), (0o700, 0o600));
    let (again, outcome) = Authority::init(&at, 10).unwrap();
    assert_eq!((again.certificate, outcome), (first.certificate, Outcome::Kept));
    fs::remove_file(at.join(AUTHORITY_KEY)).unwrap();
    assert!(matches!(Authority::init(&at, 10), Err(PkiError::Half { .. })));
}

#[test]
fn a_certificate_that_will_do_is_kept_and_another_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, _) = Authority::init(folder.path(), 10).unwrap();
    let wanted = order(Role::Controller, "c1", &["10.0.0.1", "c1.example"]);
    let to = authority.place(&wanted.peer);
    let (made, outcome) = authority.issue(&wanted, &to).unwrap();
    assert_eq!(outcome, Outcome::Made);
    assert_eq!(mode(&Files::in_folder(&to).key), 0o600);
    assert_eq!(authority.issue(&wanted, &to).unwrap(), (made.clone(), Outcome::Kept));
    let moved = order(Role::Controller, "c1", &["10.0.0.2"]);
    assert!(matches!(authority.issue(&moved, &to), Err(PkiError::Other { .. })));
    let renewed = authority.issue(&Order { renew: true, ..moved }, &to).unwrap();
    assert_eq!(renewed.0.addresses, ["10.0.0.2"]);
}

#[test]
fn a_certificate_with_little_time_left_counts_as_old() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, _) = Authority::init(folder.path(), 10).unwrap();
    let wanted = order(Role::Host, "h", &[]);
    let to = authority.place(&wanted.peer);
    let (mut found, _) = authority.issue(&wanted, &to).unwrap();
    assert!(!found.is_old());
    found.not_before -= Duration::days(70);
    assert!(found.is_old());
}

#[test]
fn what_cannot_be_signed_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Authority::open(folder.path()), Err(PkiError::NoAuthority { .. })));
    assert!(matches!(Authority::init(folder.path(), 0), Err(PkiError::Days { days: 0 })));
    let (authority, _) = Authority::init(folder.path(), 10).unwrap();
    let issue = |order: &Order| authority.issue(order, &folder.path().join("x"));
    let nowhere = issue(&order(Role::Controller, "c", &[]));
    assert!(matches!(nowhere, Err(PkiError::NoAddress { .. })));
    for address in ["10.0.0.1:80", "a b", "", "http://x"] {
        let refused = issue(&order(Role::Controller, "c", &[address]));
        assert!(matches!(refused, Err(PkiError::Address { .. })), "{address}");
    }
    for name in ["", "../x", "a/b", "-x", "ä"] {
        assert!(matches!(Peer::new(Role::Host, name), Err(PkiError::Name { .. })), "{name}");
    }
    assert!(matches!("root".parse::<Role>(), Err(PkiError::Role { .. })));
}
