//! A target, its replicas, an old target, and those who have nothing to do with them.

use fixtures::Scene;
use model::{Epoch, InstanceId};

use super::*;

/// v is served by b, was served by c, and has replicas on a and b; d has nothing of it.
const SCENE: &str = "node a b c d; pool a1 b1 c1 d1; volume v 1G x2 on=b epoch=3: a1, b1";

struct Case {
    scene: Scene,
    volume: Volume,
    record: Membership,
}

impl Case {
    fn new() -> Self {
        let scene = Scene::new(SCENE);
        let view = scene.world.volume(scene.names.volume("v")).unwrap();
        let (mut volume, record) = (view.record.clone(), view.membership.clone().unwrap());
        volume.layout.old_targets =
            [TargetRef { node: scene.names.node("c"), epoch: Epoch(2) }].into();
        Self { scene, volume, record }
    }

    fn asker(&self, node: &str) -> Asker {
        let node = self.scene.names.node(node);
        let instance = self.scene.world.node(node).unwrap().record.layout.instance.unwrap();
        Asker { node, instance, certificate: None }
    }

    fn node(&self, asker: &Asker) -> RecordFound<'_, Node> {
        let view = self.scene.world.node(asker.node);
        view.map_or(RecordFound::Absent, |view| RecordFound::Read(&view.record))
    }

    fn facts(&self, asker: &Asker) -> MembershipFacts<'_> {
        MembershipFacts {
            node: self.node(asker),
            volume: RecordFound::Read(&self.volume),
            record: &self.record,
            tombstones: &[],
        }
    }

    fn reads(&self, asker: &Asker) -> Result<(), AskRefusal> {
        check_read(asker, &self.facts(asker))
    }

    fn swaps(&self, asker: &Asker, new: &Membership) -> Result<(), AskRefusal> {
        check_swap(asker, &self.facts(asker), new)
    }
}

/// HA-9, M-34 in part: an old target still learns that it is fenced; a stranger learns nothing.
#[test]
fn a_record_is_shown_to_those_who_have_a_part_of_the_volume() {
    let case = Case::new();
    for node in ["a", "b", "c"] {
        assert_eq!(case.reads(&case.asker(node)), Ok(()), "{node}");
    }
    let stranger = case.asker("d");
    assert_eq!(case.reads(&stranger), Err(AskRefusal::NoPart));
    let tombstones = [TargetRef { node: stranger.node, epoch: Epoch(1) }];
    let buried = MembershipFacts { tombstones: &tombstones, ..case.facts(&stranger) };
    assert_eq!(check_read(&stranger, &buried), Ok(()));
    let unknown = MembershipFacts { node: RecordFound::Absent, ..case.facts(&case.asker("b")) };
    assert_eq!(check_read(&case.asker("b"), &unknown), Err(AskRefusal::NoSuchNode));
}

/// ST-5, M-34 in part, M-38 in part: only the process that the epoch was issued to, and in its own
/// name.
#[test]
fn a_record_is_changed_by_the_process_that_its_epoch_was_issued_to() {
    let case = Case::new();
    let owner = case.asker("b");
    let own = Membership { owner: Some(owner.instance), ..case.record.clone() };
    assert_eq!(case.swaps(&owner, &own), Ok(()));
    assert_eq!(case.swaps(&owner, &Membership { owner: None, ..own.clone() }), Ok(()));
    for node in ["a", "c", "d"] {
        assert_eq!(case.swaps(&case.asker(node), &own), Err(AskRefusal::NotOwner), "{node}");
    }
    let twin = Asker { instance: InstanceId::from_u128(77), ..owner.clone() };
    assert_eq!(case.swaps(&twin, &own), Err(AskRefusal::NotOwner));
    let later = Membership { epoch: Epoch(4), ..own.clone() };
    assert_eq!(case.swaps(&owner, &later), Err(AskRefusal::NotOwner));
    let other = Membership { owner: Some(twin.instance), ..own };
    assert_eq!(case.swaps(&owner, &other), Err(AskRefusal::OtherName));
}

/// M-17: a certificate of one node does not ask with another's id.
#[test]
fn a_certificate_asks_for_the_node_of_its_name_only() {
    let case = Case::new();
    let named = |name: &str| Asker { certificate: Some(name.into()), ..case.asker("b") };
    assert_eq!(case.reads(&named("b")), Ok(()));
    assert_eq!(case.reads(&named("a")), Err(AskRefusal::OtherNode));
    assert_eq!(case.swaps(&named("a"), &case.record), Err(AskRefusal::OtherNode));
    assert!(is_record_of("n", "n-77", &77) && !is_record_of("n", "n-78", &77));
    assert!(!is_record_of("node-1", "node-12", &77));
}

/// ST-8: a volume whose record does not decode keeps its target, and nobody else gets it.
#[test]
fn the_owner_on_record_serves_on_while_its_volume_cannot_be_read() {
    let case = Case::new();
    let owner = case.asker("b");
    let record = Membership { owner: Some(owner.instance), ..case.record.clone() };
    let facts = |asker: &Asker| MembershipFacts {
        volume: RecordFound::Unreadable,
        record: &record,
        node: case.node(asker),
        tombstones: &[],
    };
    assert_eq!(check_swap(&owner, &facts(&owner), &record), Ok(()));
    assert_eq!(check_read(&owner, &facts(&owner)), Ok(()));
    let other = case.asker("a");
    assert_eq!(check_swap(&other, &facts(&other), &record), Err(AskRefusal::NotOwner));
    assert_eq!(check_read(&other, &facts(&other)), Err(AskRefusal::NoPart));
}
