//! Whole configs and differences.

use model::{EngineError, Millis, Scope};

use super::*;
use crate::{
    Event,
    rig::{NODE, PROCESS, World},
};

fn answer(world: &mut World, answer: Result<Revision, EngineError>) {
    world.tell(Event::NodeAnswered { node: NODE, answer });
}

fn scopes(world: &World) -> Vec<Scope> {
    world.applied.iter().map(|config| config.head.scope).collect()
}

/// The node took its first config.
fn begun() -> (World, Revision) {
    let mut world = World::with_node();
    assert_eq!(scopes(&world), [Scope::Whole]);
    let generation = world.applied[0].head.generation;
    answer(&mut world, Ok(generation));
    world.applied.clear();
    (world, generation)
}

/// RC-1: an engine that answers nothing is sent everything again.
#[test]
fn a_config_that_is_not_answered_is_sent_again_whole() {
    let mut world = World::with_node();
    world.pass(Millis(ANSWER_WITHIN.0 - 1));
    assert_eq!(world.applied.len(), 1);
    world.tell(Event::Heartbeat { node: NODE, instance: PROCESS });
    world.pass(Millis(2));
    assert_eq!(scopes(&world), [Scope::Whole, Scope::Whole]);
}

#[test]
fn what_changes_after_the_first_config_is_sent_as_a_difference_to_it() {
    let (mut world, base) = begun();
    world.reconciler.delivery.mark_node(NODE, Key::Node(NODE));
    world.tell(Event::Tick);
    assert_eq!(scopes(&world), [Scope::Difference { base }]);
}

/// One that lacks the base asks for the whole, and has it at once; one that fails has it later.
#[test]
fn an_engine_that_refuses_a_difference_gets_the_whole() {
    let (mut world, at) = begun();
    world.reconciler.delivery.mark_node(NODE, Key::Node(NODE));
    world.tell(Event::Tick);
    answer(&mut world, Err(EngineError::NeedsWhole { at }));
    assert_eq!(scopes(&world), [Scope::Difference { base: at }, Scope::Whole]);
    answer(&mut world, Err(EngineError::Unreachable { reason: "away".into() }));
    assert_eq!(world.applied.len(), 2, "not at once");
    world.pass(ANSWER_WITHIN);
    world.tell(Event::Heartbeat { node: NODE, instance: PROCESS });
    assert_eq!(world.applied.len(), 3);
    assert_eq!(scopes(&world)[2], Scope::Whole);
}
