//! Where what exists differs from what a create asks for, field by field.
//!
//! Specs are compared as they are stored, so that a new field is compared too. What other requests
//! give a volume is left out: a create cannot ask for it.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use model::{Bytes, Labels, Pool, PoolSpec, Volume, VolumeSpec};
use serde::Serialize;
use serde_json::Value;

use crate::World;

/// One field, for people: what it is, and what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// As in the API: `spec.size`, `labels`.
    pub field: String,
    pub is: String,
    pub asked: String,
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, is, asked } = self;
        let field = field.strip_prefix("spec.").unwrap_or(field);
        write!(f, "{field} {is}, not {asked}")
    }
}

/// What a user gives a volume's spec and that is not what it has.
pub fn volume_differences(old: &VolumeSpec, new: &VolumeSpec) -> Vec<FieldDifference> {
    let mut new = new.clone();
    if new.publish.is_none() {
        new.publish.clone_from(&old.publish);
    }
    if new.share.is_none() {
        new.share.clone_from(&old.share);
    }
    if new.promote.is_none() {
        new.promote.clone_from(&old.promote);
    }
    if new.severed.is_empty() {
        new.severed.clone_from(&old.severed);
    }
    new.extra.clone_from(&old.extra);
    new.topology.extra.clone_from(&old.topology.extra);
    new.policy.extra.clone_from(&old.policy.extra);
    compare(old, &new)
}

/// The same of a whole create.
pub(super) fn of_volume(
    old: &Volume,
    name: &str,
    labels: &Labels,
    spec: &VolumeSpec,
) -> Vec<FieldDifference> {
    let mut found = volume_differences(&old.spec, spec);
    found.extend(name_and_labels((&old.meta.name, &old.meta.labels), (name, labels)));
    found
}

pub(super) fn of_pool(
    world: &World,
    old: &Pool,
    name: &str,
    labels: &Labels,
    spec: &PoolSpec,
) -> Vec<FieldDifference> {
    let new = PoolSpec { extra: old.spec.extra.clone(), ..spec.clone() };
    let mut found = compare(&old.spec, &new);
    if let Some(node) = found.iter_mut().find(|found| found.field == "spec.node") {
        let named = |id| world.node(id).map(|view| view.record.meta.name.clone());
        node.is = named(old.spec.node).unwrap_or_else(|| old.spec.node.to_string());
        node.asked = named(spec.node).unwrap_or_else(|| spec.node.to_string());
    }
    found.extend(name_and_labels((&old.meta.name, &old.meta.labels), (name, labels)));
    found
}

fn name_and_labels(old: (&str, &Labels), new: (&str, &Labels)) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    if old.0 != new.0 {
        let (is, asked) = (old.0.into(), new.0.into());
        found.push(FieldDifference { field: "name".into(), is, asked });
    }
    if old.1 != new.1 {
        let (is, asked) = (pairs(old.1), pairs(new.1));
        found.push(FieldDifference { field: "labels".into(), is, asked });
    }
    found
}

fn pairs(labels: &Labels) -> String {
    if labels.is_empty() {
        return "none".into();
    }
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

fn compare<T: Serialize>(old: &T, new: &T) -> Vec<FieldDifference> {
    let (Ok(Value::Object(mut old)), Ok(Value::Object(new))) =
        (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (field, asked) in new {
        let is = old.remove(&field).unwrap_or(Value::Null);
        if is != asked {
            let (is, asked) = (shown(&field, &is), shown(&field, &asked));
            found.push(FieldDifference { field: format!("spec.{field}"), is, asked });
        }
    }
    // A field that is left out when it is empty.
    for (field, is) in old {
        let (is, asked) = (shown(&field, &is), "none".into());
        found.push(FieldDifference { field: format!("spec.{field}"), is, asked });
    }
    found
}

fn shown(field: &str, value: &Value) -> String {
    match value {
        Value::Number(bytes) if field == "size" => {
            bytes.as_u64().map_or_else(|| bytes.to_string(), |bytes| Bytes(bytes).to_string())
        }
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| shown(field, item)).collect();
            items.join(",")
        }
        other => other.to_string(),
    }
}
