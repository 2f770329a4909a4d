//! Scripts speak of gibibytes. Real pools are made of real blocks, so everything is made smaller by
//! the same factor; nothing that is decided depends on it.

use model::Bytes;

use crate::{Action, Ask, Script};

/// The smallest volume of a script, 1 GiB, becomes the smallest that there may be, 4 MiB.
const SCALE: u64 = 256;

/// The same script in a smaller world.
pub(crate) fn scaled(script: &Script) -> Script {
    let mut script = script.clone();
    for disk in &mut script.setup.disks {
        disk.capacity = shrunk(disk.capacity);
    }
    for line in &mut script.lines {
        match &mut line.action {
            Action::Ask(Ask::CreateVolume(wish)) => wish.size = shrunk(wish.size),
            Action::Ask(Ask::Resize { size, .. }) => *size = shrunk(*size),
            _ => {}
        }
    }
    script
}

fn shrunk(size: Bytes) -> Bytes {
    Bytes((size.0 / SCALE).max(model::limits::VOLUME_SIZE_MIN.0))
}
