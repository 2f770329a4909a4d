//! Names and what they lead to.

use model::{Key, Write};

use crate::scene::{Scene, VOLUME, name};

const NAME: &str = "names";

/// LC-5: a volume that is being deleted gives its name up at once.
#[test]
fn a_deleting_volume_frees_its_name() {
    let mut scene = Scene::founded();
    let free = Write::delete(Key::name("volume", "v"));
    scene.breaks(NAME, core::slice::from_ref(&free));
    let mut writes = scene.edit(|volume, _| {
        volume.spec.deleting = true;
        volume.meta.spec_revision += 1;
    });
    writes.push(free);
    scene.legal(&writes);
}

#[test]
fn a_name_leads_to_what_bears_it() {
    let scene = Scene::founded();
    scene.breaks(NAME, &[name("volume", "w", &VOLUME)]);
    scene.breaks(NAME, &[name("volume", "w", &"no id")]);
    scene.breaks(NAME, &[name("pool", "p1", &crate::scene::pool(2))]);
}

#[test]
fn a_removed_volume_leaves_no_name_behind() {
    let scene = Scene::founded();
    let mut writes = scene.delete();
    writes.retain(|write| !matches!(write, Write::Delete { key: Key::Name(..) }));
    scene.breaks(NAME, &writes);
}
