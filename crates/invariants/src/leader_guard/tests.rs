//! Who may write at all.

use model::{InstanceId, Key, Record, Revision, Write};

use crate::{
    Author,
    scene::{Scene, by, put},
};

const NAME: &str = "leader_guard";

/// ST-4: a controller whose key was made anew by another one commits nothing.
#[test]
fn a_stale_leader_commits_nothing() {
    let mut scene = Scene::serving();
    let grow = scene.edit(|volume, _| volume.layout.size.0 += 4096);
    let created = Revision(scene.records.revision.0 + 7);
    scene.breaks_by(Author::Leader { created }, NAME, &grow);
    let stale = scene.leader;
    scene.legal_by(Author::Other, &[Write::delete(Key::Leader)]);
    scene.breaks_by(stale, NAME, &grow);
    scene.legal_by(Author::Other, &[put(Record::Leader(InstanceId::from_u128(0x98)))]);
    scene.breaks_by(stale, NAME, &grow);
    scene.legal_by(Author::Leader { created: scene.records.revision }, &grow);
}

/// ST-4: a renewed key is still the one that was created.
#[test]
fn a_renewed_key_goes_on_leading() {
    let mut scene = Scene::serving();
    scene.legal(&[put(Record::Leader(InstanceId::from_u128(0x99)))]);
    scene.legal(&scene.edit(|volume, _| volume.layout.size.0 += 4096));
}

/// ST-5: engines write membership records, and nothing else.
#[test]
fn an_engine_changes_no_layout() {
    let scene = Scene::serving();
    scene.breaks_by(by(1), NAME, &scene.edit(|volume, _| volume.layout.size.0 += 4096));
    scene.breaks_by(by(1), NAME, &[Write::delete(Key::Membership(crate::scene::VOLUME))]);
    scene.breaks_by(Author::Other, NAME, &scene.edit_node(1, |node| node.layout.gone_since = None));
}
