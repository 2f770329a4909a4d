//! Wishes come first.

use model::{Key, Write};

use crate::scene::{SNAPSHOT, Scene, node, pool};

const NAME: &str = "asked_for";

/// LC-5: a volume goes by a user's wish, and its snapshots with it.
#[test]
fn nothing_is_removed_unasked() {
    let mut scene = Scene::founded().with_snapshot();
    scene.breaks(NAME, &scene.delete());
    for key in [Key::Snapshot(SNAPSHOT), Key::Pool(pool(4)), Key::Node(node(4))] {
        scene.breaks(NAME, &[Write::delete(key)]);
    }
    scene.ask_to_delete();
    let with_snapshot =
        [Write::delete(Key::Snapshot(SNAPSHOT)), Write::delete(Key::name("snapshot", "s"))];
    let graves = [crate::scene::bury(
        1,
        model::Buried::Snapshot {
            snapshot: SNAPSHOT,
            replica: crate::scene::replica(1),
            pool: pool(1),
        },
    )];
    scene.legal(&[with_snapshot.as_slice(), graves.as_slice()].concat());
    scene.legal(&scene.delete());
}
