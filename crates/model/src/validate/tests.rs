//! Bad input is refused with the field, the value and the limit.

use alloc::{collections::BTreeSet, string::ToString};

use super::*;
use crate::{AttemptId, Extra, HostId};

fn spec(size: Bytes, replicas: u8) -> VolumeSpec {
    VolumeSpec { size, replicas, ..VolumeSpec::default() }
}

/// LC-1: validation comes first, and says what is wrong.
#[test]
fn a_refusal_names_field_value_and_limit() {
    let refused = |spec: VolumeSpec| spec.validate().unwrap_err().to_string();
    assert_eq!(
        refused(spec(Bytes::mib(1), 3)),
        "spec.size: 1 MiB is not allowed; it must be from 4 MiB to 256 TiB"
    );
    assert_eq!(
        refused(spec(Bytes(Bytes::gib(1).0 + 1), 3)),
        "spec.size: 1073741825 B is not allowed; it must be a multiple of 4 KiB"
    );
    assert_eq!(
        refused(spec(Bytes::gib(1), 6)),
        "spec.replicas: 6 is not allowed; it must be from 1 to 5"
    );
    assert!(spec(Bytes::gib(1), 5).validate().is_ok());
}

#[test]
fn names_follow_the_rules_of_kubernetes() {
    for good in ["a", "pvc-0.x", "9"] {
        assert!(name("name", good).is_ok(), "{good}");
    }
    for bad in ["", "A", "-a", "a-", "a_b", "a/b", "ü", &"x".repeat(64)] {
        assert!(name("name", bad).is_err(), "{bad}");
    }
}

#[test]
fn an_exclusive_volume_takes_one_host() {
    let host = |number| HostId::from_u128(number);
    let publish = |hosts: BTreeSet<HostId>, deadline| Publish {
        attempt: AttemptId::from_u128(1),
        deadline,
        hosts,
        extra: Extra::new(),
    };
    let soon = Time(10_000);
    let two = BTreeSet::from([host(1), host(2)]);
    assert!(publish(two.clone(), soon).validate(Access::Exclusive, Time(0)).is_err());
    assert!(publish(two, soon).validate(Access::Many, Time(0)).is_ok());
    assert!(publish([].into(), soon).validate(Access::Many, Time(0)).is_err());
    assert!(publish([host(1)].into(), Time(1)).validate(Access::Exclusive, Time(0)).is_err());
}
