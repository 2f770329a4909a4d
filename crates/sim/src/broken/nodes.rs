//! Storage nodes with one rule of their glue left out: each must be noticed by seeds that the
//! whole one passes.

use storage_node::NodeMutation;

use super::catch::{Caught, Sound};
use crate::{Options, generate, real_brain, run};

/// A storage node that lacks a rule.
#[derive(Clone, Copy, Debug)]
pub struct BrokenNode {
    pub name: &'static str,
    /// What it does wrong, in words for people.
    pub flaw: &'static str,
    pub mutation: NodeMutation,
}

pub const fn broken_nodes() -> [BrokenNode; 3] {
    [
        BrokenNode {
            name: "apply-waits-for-every-pool",
            flaw: "answers a config only when every pool of the node is idle",
            mutation: NodeMutation::ApplyWaitsForEveryPool,
        },
        BrokenNode {
            name: "wrong-pool",
            flaw: "sends the I/O of a replica to another pool of the node",
            mutation: NodeMutation::WrongPool,
        },
        BrokenNode {
            name: "report-forgotten",
            flaw: "tells of a change only with the next whole inventory",
            mutation: NodeMutation::ReportForgotten,
        },
    ]
}

impl BrokenNode {
    pub fn options(self) -> Options {
        Options { mutation: Some(self.mutation), ..Options::default() }
    }
}

/// The first of the seeds on which only the broken node fails.
pub fn catch_node(
    broken: BrokenNode,
    seeds: impl IntoIterator<Item = u64>,
    sound: &Sound,
) -> Option<Caught> {
    seeds.into_iter().find_map(|seed| {
        let script = generate(seed);
        let failure = run(seed, &script, real_brain(), broken.options()).failure?;
        sound.is_sound(seed, &script).then_some(Caught { seed, script, failure })
    })
}
