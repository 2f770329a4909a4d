//! Whose hand wrote what.

use model::Bytes;

use crate::scene::{Scene, engine};

const NAME: &str = "hands";

/// LC-7: the planner answers a change of the spec in a commit of its own.
#[test]
fn spec_and_layout_change_in_turn() {
    let mut scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.spec.size = Bytes::gib(2);
            volume.layout.size = Bytes::gib(2);
            volume.meta.spec_revision += 1;
        }),
    );
    scene.legal(&scene.edit(|volume, _| {
        volume.spec.size = Bytes::gib(2);
        volume.meta.spec_revision += 1;
    }));
    scene.legal(&scene.edit(|volume, _| volume.layout.size = Bytes::gib(2)));
}

/// LC-7: users' preconditions see every change of the spec, and no change of the planner's.
#[test]
fn the_revision_of_the_spec_rises_with_the_spec_alone() {
    let scene = Scene::serving();
    scene.breaks(NAME, &scene.edit(|volume, _| volume.spec.size = Bytes::gib(2)));
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.size = Bytes::gib(2);
            volume.meta.spec_revision += 1;
        }),
    );
    scene.breaks(NAME, &scene.edit_node(1, |node| node.spec.cordoned = true));
}

#[test]
fn an_engine_registers_with_a_new_address() {
    let mut scene = Scene::empty();
    scene.legal(&scene.edit_node(1, |node| {
        node.spec.address = "another".into();
        node.meta.spec_revision += 1;
        node.layout.instance = Some(engine(9));
    }));
}
