//! What is stored reads back, also across versions.

use alloc::vec::Vec;

use crate::{
    Buried, Bytes, Key, Membership, Meta, NodeId, PoolId, Record, Replica, ReplicaId, Revision,
    Time, Tombstone, Volume, VolumeId, VolumeLayout, VolumeSpec,
};

fn volume() -> Volume {
    let id = VolumeId::from_u128(1);
    let replica =
        Replica::placed(ReplicaId::from_u128(2), PoolId::from_u128(3), NodeId::from_u128(4));
    Volume {
        meta: Meta::new(id, "v", Time(5)),
        spec: VolumeSpec { size: Bytes::gib(1), replicas: 1, ..VolumeSpec::default() },
        layout: VolumeLayout { replicas: Vec::from([replica]), ..VolumeLayout::default() },
    }
}

/// ST-2: the record carries what the contract lists, and reads back whole.
#[test]
fn a_record_reads_back_as_it_was_written() {
    let records = [
        Record::Volume(volume().into()),
        Record::Membership(
            Membership::founded(VolumeId::from_u128(1), [ReplicaId::from_u128(2)]).into(),
        ),
        Record::Tombstone(
            Tombstone::new(
                NodeId::from_u128(4),
                Buried::Pool { pool: PoolId::from_u128(3) },
                Time(6),
            )
            .into(),
        ),
    ];
    for mut record in records {
        let key = record.key().unwrap();
        record.set_revision(Revision(9));
        assert_eq!(Record::decode(&key, &record.encode(), Revision(9)), Ok(record));
    }
}

/// OP-6: a field that a newer version wrote survives a write by this one, at every depth.
#[test]
fn unknown_fields_are_preserved_on_write() {
    let mut value: serde_json::Value =
        serde_json::from_slice(&Record::Volume(volume().into()).encode()).unwrap();
    for path in ["/meta", "/spec", "/layout", "/layout/replicas/0", "/spec/topology"] {
        value.pointer_mut(path).unwrap()["from_the_future"] = 7.into();
    }
    let bytes = serde_json::to_vec(&value).unwrap();
    let key = Key::Volume(VolumeId::from_u128(1));
    let record = Record::decode(&key, &bytes, Revision(1)).unwrap();
    let again: serde_json::Value = serde_json::from_slice(&record.encode()).unwrap();
    assert_eq!(again, value);
}

/// ST-8: bytes that do not decode name the record; they never panic.
#[test]
fn a_record_that_does_not_decode_is_named() {
    let key = Key::Volume(VolumeId::from_u128(1));
    for bytes in [&b""[..], b"{}", b"\xff", b"[1]", b"{\"meta\":3}"] {
        let error = Record::decode(&key, bytes, Revision(1)).unwrap_err();
        assert!(error.key.starts_with("volume/"), "{error}");
    }
}

/// ST-8: a record under another record's key is not believed.
#[test]
fn a_record_under_a_foreign_key_is_refused() {
    let bytes = Record::Volume(volume().into()).encode();
    let key = Key::Volume(VolumeId::from_u128(99));
    assert!(Record::decode(&key, &bytes, Revision(1)).is_err());
}
