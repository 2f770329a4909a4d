//! Certificates are read as they were made, and garbage is refused without a panic.

use rcgen::{CertificateParams, KeyPair, SanType};

use super::*;

fn made(names: Vec<SanType>) -> CertificateDer<'static> {
    let mut params = CertificateParams::new([]).unwrap();
    params.subject_alt_names = names;
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
}

#[test]
fn a_certificate_is_read_with_its_role_and_addresses() {
    let der = made(vec![
        SanType::URI("holdfast:engine/node-1".try_into().unwrap()),
        SanType::DnsName("n1.example".try_into().unwrap()),
        SanType::IpAddress("10.0.0.1".parse().unwrap()),
        SanType::IpAddress("fd00::1".parse().unwrap()),
    ]);
    let read = Certificate::parse(&der).unwrap();
    assert_eq!(read.peer, Some(Peer::new(crate::Role::Engine, "node-1").unwrap()));
    assert_eq!(read.addresses, ["n1.example", "10.0.0.1", "fd00::1"]);
    assert!(read.is_valid() && !read.is_old());
}

/// M-17: only what an authority of ours writes counts as a role.
#[test]
fn a_name_that_only_looks_like_a_role_gives_none() {
    for uri in ["holdfast:root/x", "holdfast:engine/", "holdfast:engine/a/b", "engine/node-1"] {
        let der = made(vec![SanType::URI(uri.try_into().unwrap())]);
        assert_eq!(Certificate::parse(&der).unwrap().peer, None, "{uri}");
    }
}

#[test]
fn a_certificate_cut_short_or_garbled_is_never_a_panic() {
    let whole = made(vec![SanType::URI("holdfast:host/h".try_into().unwrap())]);
    for end in 0..whole.len() {
        let cut = CertificateDer::from(whole[..end].to_vec());
        assert!(Certificate::parse(&cut).is_none(), "{end}");
        let mut garbled = whole.to_vec();
        garbled[end] ^= 0xff;
        // Any answer will do.
        let _ = Certificate::parse(&CertificateDer::from(garbled));
    }
}
