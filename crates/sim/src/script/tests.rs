//! What is written reads back, and what cannot be read is named.

use super::*;

/// Every kind of line once.
const EVERYTHING: &str = "\
# M-07, LC-5: every line that can be said.
controllers 3
node n1 rack=r1 zone=a
node n2
disk p1 on n1 100GiB
disk p2 on n2 512MiB
host h1
host h2 on n1
0.500 create pool p1 on n1
1.000 create volume v1 10GiB x3 thin many spread=rack spread=zone only=zone:a name=x group=g from=s1
1.100 create volume v2 4MiB x1 rebuild-wait 30s
2.000 publish v1 to h1 h2 within 1min
2.100 unpublish v1 from h1
2.200 unpublish v1 from h2 by-force
2.300 resize v1 20GiB
2.400 scale v1 x2
2.500 snapshot s1 of v1 within 10s
2.600 delete snapshot s1
2.700 share v1 with h1 h2
2.800 unshare v1
2.900 promote v1
3.000 recover
3.100 recover accept v1 v2
3.200 cordon n1
3.300 uncordon n1
3.400 drain n1
3.500 undrain n1
3.600 forget node n1
3.700 forget pool p1
3.800 delete pool p1
3.900 delete volume v1 with-snapshots
4.000 delete volume v2
4.100 label n1 zone=b
5.000 kill n1 for 500ms
5.100 kill h1 for 2s
5.200 kill c1 for 2s
5.300 power off n1 for 30s
5.400 power off n2
5.500 power on n2
5.600 pause n1 for 3s
5.700 cut n1 n2 for 4s
5.800 cut n1 to store for 4s
5.900 isolate n1 for 5s
6.000 flap n1 every 2s for 20s
6.100 store silent for 5s
6.200 store refusing for 5s
6.300 store slow 2s for 10s
6.400 store compacts
6.500 store ends-leases
6.600 store rolls-back 10s
6.700 store wiped
6.800 garble volume v1 for 5s
6.900 fault p1
7.000 fault p1 for 10s
7.100 pull p1 for 10s
7.300 swap p1
7.400 weather lost 200 repeated 100 slower 300ms for 5s
7.500 clock c1 ahead 5s
7.600 clock c1 behind 5s
8.000 expect volume v1 degraded
expect volume v1
expect volume v1 healthy
expect volume v1 published
expect volume v1 failed
expect no volume v2
expect copies v1 3
expect copy v1 on p1
expect spread v1 zone 3
expect path h1 v1
expect no path h2 v1
expect target v1
expect no target v1 on n2
expect switchover v1 ReplacePath
expect no switchover v1
expect epoch v1 at-most 3
expect share v1 on h2
expect writes v1 within 3s
expect snapshot s1
expect snapshot s1 ready
expect snapshot s1 failed
expect no pool p1
expect no node n1
expect no tombstones
expect tombstones on n1
expect rebuilds at-most 16
expect balance within 20
expect readonly
expect wait v3 NoHealthyCopy
expect event data may be lost
expect events at-most 2 switchover begun
expect early v1 at-most 4 may be rebuilt
expect refused no pool can take
expect said held newer data
";

#[test]
fn a_script_reads_back_as_it_was_written() {
    let script = Script::parse(EVERYTHING).unwrap();
    assert_eq!(script.to_string(), EVERYTHING);
    assert_eq!(Script::parse(&script.to_string()), Ok(script));
}

#[test]
fn what_cannot_be_read_is_named_with_its_line() {
    let check = |text: &str, reason: &str| {
        let error = Script::parse(&format!("controllers 1\n{text}")).unwrap_err();
        assert_eq!((error.line, error.reason.as_str()), (2, reason), "{text}");
    };
    check("1.0 dance v1", "nobody can ask for \"dance\"");
    check("1.0 kill x1", "a party begins with n, h or c, or is the store");
    check("1.0 pause n1", "\"for\" is missing");
    check("1.0 pause n1 for 3h", "not a span like 4s or 500ms");
    check("1.2345 kill n1", "not a time like 12.400");
    check("1.0 kill n1 for 1s twice", "\"twice\" is too much");
    check("1.0 create volume v1 10GiB 3", "not like x3");
    check("expect miracles", "\"miracles\" cannot be expected");
    check("moon m1", "neither a time, nor a part of the cluster, nor expect");
}

#[test]
fn lines_are_sorted_by_time_and_quick_kills_have_a_default() {
    let script = Script::parse("2.0 kill n2\n1.5 kill n1").unwrap();
    let lines: Vec<_> = script.lines.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["1.500 kill n1 for 500ms", "2.000 kill n2 for 500ms"]);
}

#[test]
fn attempts_are_named_after_the_time_of_their_line() {
    let script = Script::parse("2.5 publish v1 to h1").unwrap();
    let Action::Ask(ask) = &script.lines[0].action else { panic!("not a request") };
    let request = ask.request(script.lines[0].at, model::Time(7_000));
    let plan::Request::PublishVolume { attempt, deadline, .. } = request else {
        panic!("{request:?}")
    };
    assert_eq!(attempt, crate::attempt("a2500"));
    assert_eq!(deadline, model::Time(67_000));
}
