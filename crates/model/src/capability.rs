//! What a config item may need of an engine beyond the first release, by name.
//!
//! An engine refuses what it does not know by this name, instead of ignoring it. A capability is
//! asked for only where a user asked for what it is for; so builds mix as long as nobody uses what
//! only the newer ones have.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString as _},
};

use crate::Volume;

/// What this build knows.
#[cfg(not(feature = "next-build"))]
const KNOWN: &[&str] = &[];
#[cfg(feature = "next-build")]
const KNOWN: &[&str] = &[crate::next::TRICK];

/// What a volume needs of every engine that has a part of it.
pub fn needs(volume: &Volume) -> BTreeSet<String> {
    let is_asked = |name: &&&str| volume.meta.labels.contains_key(**name);
    KNOWN.iter().filter(is_asked).map(|name| (*name).to_string()).collect()
}

/// Why an engine of this build will not do what needs these, and what cures it.
pub fn unmet(needs: &BTreeSet<String>) -> Option<String> {
    let name = needs.iter().find(|name| !KNOWN.contains(&name.as_str()))?;
    Some(format!("it needs {name:?}, which the engine of this node does not know: upgrade it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-6: what a newer controller asks for is refused by its name, with the cure.
    #[test]
    fn what_is_not_known_is_refused_by_name() {
        assert_eq!(unmet(&BTreeSet::new()), None);
        let words = unmet(&["moonlight".to_string()].into()).unwrap();
        assert!(words.contains("\"moonlight\"") && words.contains("upgrade"), "{words}");
    }
}
