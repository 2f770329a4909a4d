//! The real controllers on the fakes, without faults.

use model::Millis;
use reconcile::Reconciler;

use super::*;
use crate::{Action, Script};

const CALM: &str = "\
controllers 3
node n1 zone=a
node n2 zone=b
node n3 zone=c
disk p1 on n1 100GiB
disk p2 on n2 100GiB
disk p3 on n3 100GiB
host h1
0.000 create pool p1 on n1
0.000 create pool p2 on n2
0.000 create pool p3 on n3
10.000 create volume v1 10GiB x3
12.000 publish v1 to h1
40.000 kill n1 for 5s
";

/// LC-1, RC-3, RC-4: made, published, republished when the target's engine dies, and whole again.
#[test]
fn the_real_controllers_make_a_volume_and_keep_it_alive() {
    let script = Script::parse(CALM).unwrap();
    let brain: NewBrain = Box::new(|_, instance, seed| {
        Box::new(Reconciler::<plan::Rules>::new(reconcile::Config::new(instance, seed)))
    });
    let mut cluster = Cluster::new(1, &script.setup, brain);
    // Time for an election.
    cluster.run_for(Millis::seconds(6)).unwrap();
    let start = cluster.now;
    for (number, line) in (0_u64..).zip(&script.lines) {
        cluster.run_until(start + line.at).unwrap();
        match &line.action {
            Action::Ask(ask) => {
                let request = std::rc::Rc::new(ask.request(line.at, cluster.now));
                for index in 0..script.setup.controllers {
                    let id = number * 10 + u64::from(index);
                    let message = Message::Request { id, request: request.clone() };
                    cluster.send(Party::User, Party::Controller(index), message);
                }
            }
            Action::Fault(fault) => cluster.inject(fault),
            Action::Expect(_) => {}
        }
    }
    cluster.run_for(Millis::seconds(60)).unwrap();
    let accepted = cluster.replies.iter().filter(|(_, reply)| reply.is_ok()).count();
    assert_eq!(accepted, 5, "of three controllers one leads: {:?}", cluster.replies);
    let record = cluster.records.membership(crate::volume("v1")).unwrap();
    assert_eq!(record.healthy().count(), 3);
    assert!(record.epoch > model::Epoch(1), "the target moved when its engine died");
    assert!(cluster.oracle.counts.writes > 50);
    let host = cluster.hosts[&crate::host("h1")].process.as_ref().unwrap();
    assert!(host.attached[&crate::volume("v1")].has_live_path());
}
