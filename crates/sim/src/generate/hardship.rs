//! What only some seeds have, on top of everything else: a class of rules would never be needed
//! without it.

use model::{Bytes, Millis};

use crate::{Action, Ask, Fault, Line, Script};

/// One seed in sixteen for each.
const SEEDS_PER_KIND: u64 = 16;

pub(super) fn add(seed: u64, busy: u64, script: &mut Script) {
    match seed % SEEDS_PER_KIND {
        7 => tight(script),
        11 => drained(busy, script),
        _ => {}
    }
}

/// Hardly enough space, so that it matters who was promised what. Nothing is thin: a pool that
/// writes have filled heals only by a person.
fn tight(script: &mut Script) {
    for line in &mut script.lines {
        if let Action::Ask(Ask::CreateVolume(wish)) = &mut line.action {
            wish.thin = false;
        }
    }
    for disk in &mut script.setup.disks {
        disk.capacity = Bytes((disk.capacity.0 / 6).max(Bytes::gib(8).0));
    }
}

/// A node that is drained in the end and stays so: it must become empty.
fn drained(busy: u64, script: &mut Script) {
    let lost = |line: &Line, label: &str| match &line.action {
        Action::Fault(Fault::PowerOff { node, down: None }) => node == label,
        _ => false,
    };
    let mut nodes = script.setup.nodes.keys();
    let kept = |label: &&String| !script.lines.iter().any(|line| lost(line, label));
    let Some(chosen) = nodes.find(kept).cloned() else { return };
    script.lines.retain(|line| match &line.action {
        Action::Ask(Ask::Undrain { node }) => *node != chosen || line.at < Millis(busy),
        _ => true,
    });
    let action = Action::Ask(Ask::Drain { node: chosen });
    script.lines.push(Line { at: Millis(busy + 3_000), action });
}
