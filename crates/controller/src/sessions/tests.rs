//! Who may speak for a node that is on record.

use pki::{Peer, Role};

use super::is_another;

/// M-17: a certificate of one node does not open another's place by claiming its id.
#[test]
fn a_certificate_speaks_for_the_record_of_its_name_only() {
    let peer = Peer::new(Role::Engine, "node-1").unwrap();
    let claims = |known: Option<&str>| !is_another(Some(&peer), known, "77");
    assert!(claims(None) && claims(Some("node-1")) && claims(Some("node-1-77")));
    assert!(!claims(Some("node-2")) && !claims(Some("node-12")) && !claims(Some("node-1-78")));
    // Without certificates anybody may say anything.
    assert!(!is_another(None, Some("node-2"), "77"));
}
