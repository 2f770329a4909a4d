//! Which configs are taken, and what they leave.

use model::Era;

use super::*;

const INSTANCE: InstanceId = InstanceId::from_u128(1);
const VOLUME: VolumeId = VolumeId::from_u128(7);

fn config(generation: u64, scope: Scope, era: u128, part: Option<HostPart>) -> HostConfig {
    let head = ConfigHead {
        era: Era::from_u128(era),
        term: InstanceId::from_u128(9),
        instance: INSTANCE,
        generation: Revision(generation),
        scope,
        former: Vec::new(),
    };
    HostConfig { head, parts: [(Key::Volume(VOLUME), part)].into() }
}

fn part() -> HostPart {
    HostPart { volume: VOLUME, path: None, share: None }
}

#[test]
fn a_config_that_is_not_for_now_is_refused() {
    let mut desired = Desired::new(INSTANCE);
    let refused = desired.take(config(5, Scope::Difference { base: Revision(4) }, 1, Some(part())));
    assert_eq!(refused, Err(EngineError::NeedsWhole { at: Revision::ZERO }));
    desired.take(config(5, Scope::Whole, 1, Some(part()))).unwrap();
    let refused = desired.take(config(4, Scope::Whole, 1, None));
    assert_eq!(refused, Err(EngineError::Older { at: Revision(5) }));
    assert_eq!(desired.take(config(6, Scope::Whole, 2, None)), Err(EngineError::OtherEra));
    let mut other = config(6, Scope::Whole, 1, None);
    other.head.instance = InstanceId::from_u128(2);
    let refused = desired.take(other);
    assert_eq!(refused, Err(EngineError::OtherInstance { instance: INSTANCE }));
    assert!(desired.parts().contains_key(&VOLUME), "what was refused changed nothing");
}

#[test]
fn a_difference_takes_away_what_it_names_and_a_whole_config_what_it_does_not() {
    let mut desired = Desired::new(INSTANCE);
    desired.take(config(5, Scope::Whole, 1, Some(part()))).unwrap();
    let base = Revision(5);
    desired.take(config(6, Scope::Difference { base }, 1, None)).unwrap();
    assert!(desired.parts().is_empty());
    desired.take(config(7, Scope::Difference { base: Revision(6) }, 1, Some(part()))).unwrap();
    let mut empty = config(8, Scope::Whole, 1, None);
    empty.parts.clear();
    desired.take(empty).unwrap();
    assert!(desired.parts().is_empty());
}
