//! Golden tables.

use serde_json::json;

use super::*;

fn drawn(kind: Kind, wide: bool, values: &[Value]) -> String {
    let names = [("n-1".to_owned(), "a".to_owned()), ("h-1".to_owned(), "web".to_owned())];
    let around = Around { now: Time(600_000), names: names.into() };
    let columns = columns(kind, wide);
    let rows: Vec<_> = values.iter().map(|value| row(&columns, value, &around)).collect();
    let mut out = Vec::new();
    write(&mut out, &columns, &rows).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn volumes_show_copies_target_and_hosts_by_name() {
    let volumes = [
        json!({
            "meta": { "name": "db", "created": 0 },
            "spec": { "size": 10_737_418_240_u64, "replicas": 3 },
            "layout": { "target": { "node": "n-1" }, "hosts": { "h-1": "Admitted" } },
            "status": { "health": "degraded", "healthy_copies": 2, "words": ["x"] },
        }),
        json!({
            "meta": { "name": "scratch-volume", "created": 595_000 },
            "spec": { "size": 4_194_304, "replicas": 1 },
            "layout": { "target": null, "hosts": {} },
            "status": { "health": "healthy", "healthy_copies": 1, "words": [] },
        }),
    ];
    let expected = "\
NAME            SIZE    COPIES  HEALTH    TARGET  HOSTS  AGE
db              10 GiB  2/3     degraded  a       web    10m
scratch-volume  4 MiB   1/1     healthy   -       -      5s
";
    assert_eq!(drawn(Kind::Volumes, false, &volumes), expected);
}

#[test]
fn nodes_say_whether_anything_is_placed_on_them() {
    let node = |name: &str, cordoned: bool, draining: bool| {
        json!({
            "meta": { "name": name, "created": 0, "id": "n-1", "labels": { "zone": "z1" } },
            "spec": { "address": "10.0.0.1:8420", "cordoned": cordoned, "draining": draining },
            "status": { "health": "healthy", "replicas": 4, "targets": 1 },
        })
    };
    let nodes = [node("a", false, false), node("b", true, false), node("c", true, true)];
    let expected = "\
NAME  HEALTH   SCHEDULING  REPLICAS  TARGETS  AGE  ADDRESS        LABELS   ID
a     healthy  open        4         1        10m  10.0.0.1:8420  zone=z1  n-1
b     healthy  cordoned    4         1        10m  10.0.0.1:8420  zone=z1  n-1
c     healthy  draining    4         1        10m  10.0.0.1:8420  zone=z1  n-1
";
    assert_eq!(drawn(Kind::Nodes, true, &nodes), expected);
}

#[test]
fn what_is_not_known_is_a_dash() {
    let pool = json!({ "meta": { "name": "p" }, "node": "a", "status": { "health": "unknown" } });
    let expected = "\
NAME  NODE  HEALTH   CAPACITY  USED  ROOM  REPLICAS  AGE
p     a     unknown  -         -     -     -         -
";
    assert_eq!(drawn(Kind::Pools, false, &[pool]), expected);
}
