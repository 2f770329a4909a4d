//! What the next release might bring, so that two builds that really differ can be run together.
//!
//! Everything that is sent or stored has one more field wherever a later version may add one, and
//! there is one more capability. It decides nothing: who needs it is a test.

use serde_json::{Value, json};

/// The field that this build does not have.
pub const FIELD: &str = "next_build";

/// The label of volumes that want what only this build has.
pub const TRICK: &str = "next-build-trick";

/// Keys are users' own there, not fields.
const MAPS: &[&str] = &["labels", "affinity"];

/// Small values that never gain a field, because older versions would not keep it.
const CLOSED: &[&str] = &["promote", "from", "old_targets", "reserved"];

/// Everything sent is read once: any struct may gain a field.
pub fn widen_sent(value: &mut Value) {
    widen(value, &|name| MAPS.contains(&name));
}

/// What is stored may gain fields where they survive a write by an older version.
pub fn widen_stored(value: &mut Value) {
    let is_enum = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    widen(value, &|name| MAPS.contains(&name) || CLOSED.contains(&name) || is_enum(name));
}

fn widen(value: &mut Value, is_left: &dyn Fn(&str) -> bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| widen(item, is_left)),
        Value::Object(fields) => {
            for (name, inner) in fields.iter_mut() {
                if name != FIELD && !is_left(name) {
                    widen(inner, is_left);
                }
            }
            // The three parts of a resource are what they are.
            let is_open = !fields.is_empty() && !fields.contains_key("meta");
            if is_open && fields.keys().all(|name| is_field(name)) {
                fields.insert(FIELD.into(), json!({ "since": 2, "of": [1, null, "x"] }));
            }
        }
        _ => {}
    }
}

/// Ids have dashes, keys of records slashes, variants capitals.
fn is_field(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}
