//! What users may ask for: errors name the field, the value and the limit.

use alloc::{format, string::String};
use core::fmt::Display;

use crate::{
    Access, Bytes, Labels, Millis, PoolSpec, Publish, Time, VolumeSpec,
    limits::{
        ATTEMPT_DEADLINE_MAX, ATTEMPT_DEADLINE_MIN, DISKS_PER_POOL_MAX, HOSTS_PER_VOLUME_MAX,
        LABEL_LENGTH_MAX, LABELS_MAX, NAME_LENGTH_MAX, PATH_MAX, REBUILD_WAIT_MAX, REPLICAS_MAX,
        VOLUME_SIZE_MAX, VOLUME_SIZE_MIN, VOLUME_SIZE_STEP,
    },
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not allowed; it must be {limit}")]
pub struct Invalid {
    pub field: &'static str,
    pub value: String,
    pub limit: String,
}

impl Invalid {
    pub fn new(field: &'static str, value: impl Display, limit: impl Display) -> Self {
        Self { field, value: format!("{value}"), limit: format!("{limit}") }
    }
}

type Checked = Result<(), Invalid>;

/// A name: lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit.
pub fn name(field: &'static str, name: &str) -> Checked {
    let shaped = name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'));
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    if name.len() > NAME_LENGTH_MAX {
        let limit = format!("at most {NAME_LENGTH_MAX} characters long");
        return Err(Invalid::new(field, format!("{} characters", name.len()), limit));
    }
    if shaped && edge(name.bytes().next()) && edge(name.bytes().last()) {
        return Ok(());
    }
    let limit = "lower-case letters, digits, '-' and '.', with a letter or digit at both ends";
    Err(Invalid::new(field, format!("{name:?}"), limit))
}

pub fn labels(field: &'static str, labels: &Labels) -> Checked {
    if labels.len() > LABELS_MAX {
        let limit = format!("at most {LABELS_MAX}");
        return Err(Invalid::new(field, format!("{} labels", labels.len()), limit));
    }
    for (key, value) in labels {
        // A selector is written key=value,key=value, and both are printed to terminals.
        let strange = |c: char| c.is_control() || c == ',';
        if key.contains(|c| strange(c) || c == '=') || value.contains(strange) {
            let limit = "without commas and control characters, and no '=' in a key";
            return Err(Invalid::new(field, format!("{key:?}={value:?}"), limit));
        }
        if key.is_empty() || key.len() > LABEL_LENGTH_MAX || value.len() > LABEL_LENGTH_MAX {
            let limit = format!("a key and value of at most {LABEL_LENGTH_MAX} characters");
            return Err(Invalid::new(field, format!("{key}={value}"), limit));
        }
    }
    Ok(())
}

pub fn size(field: &'static str, size: Bytes) -> Checked {
    if size < VOLUME_SIZE_MIN || size > VOLUME_SIZE_MAX {
        let limit = format!("from {VOLUME_SIZE_MIN} to {VOLUME_SIZE_MAX}");
        return Err(Invalid::new(field, size, limit));
    }
    if !size.0.is_multiple_of(VOLUME_SIZE_STEP.0) {
        let limit = format!("a multiple of {VOLUME_SIZE_STEP}");
        return Err(Invalid::new(field, format!("{} B", size.0), limit));
    }
    Ok(())
}

impl VolumeSpec {
    pub fn validate(&self) -> Checked {
        size("spec.size", self.size)?;
        if self.replicas == 0 || self.replicas > REPLICAS_MAX {
            let limit = format!("from 1 to {REPLICAS_MAX}");
            return Err(Invalid::new("spec.replicas", self.replicas, limit));
        }
        labels("spec.topology.affinity", &self.topology.affinity)?;
        let spread = self.topology.spread.iter().map(|key| (key.clone(), String::new()));
        labels("spec.topology.spread", &spread.collect())?;
        if let Some(wait) = self.policy.rebuild_wait.filter(|wait| *wait > REBUILD_WAIT_MAX) {
            let limit = format!("at most {REBUILD_WAIT_MAX}");
            return Err(Invalid::new("spec.policy.rebuild_wait", wait, limit));
        }
        if let Some(group) = &self.affinity_group {
            name("spec.affinity_group", group)?;
        }
        Ok(())
    }
}

impl Publish {
    pub fn validate(&self, access: Access, now: Time) -> Checked {
        let most = match access {
            Access::Exclusive => 1,
            Access::Many => HOSTS_PER_VOLUME_MAX,
        };
        if self.hosts.is_empty() || self.hosts.len() > most {
            let value = format!("{} hosts", self.hosts.len());
            let limit = format!("from 1 to {most} with {access:?} access");
            return Err(Invalid::new("spec.publish.hosts", value, limit));
        }
        deadline("spec.publish.deadline", self.deadline, now)
    }
}

/// A deadline of an attempt, as a span from now.
pub fn deadline(field: &'static str, deadline: Time, now: Time) -> Checked {
    let span: Millis = deadline.since(now);
    if span < ATTEMPT_DEADLINE_MIN || span > ATTEMPT_DEADLINE_MAX {
        let limit = format!("{ATTEMPT_DEADLINE_MIN} to {ATTEMPT_DEADLINE_MAX} from now");
        return Err(Invalid::new(field, format!("{span} from now"), limit));
    }
    Ok(())
}

impl PoolSpec {
    pub fn validate(&self) -> Checked {
        let count = self.disks.len();
        if count == 0 || count > DISKS_PER_POOL_MAX {
            let limit = format!("from 1 to {DISKS_PER_POOL_MAX}");
            return Err(Invalid::new("spec.disks", format!("{count} disks"), limit));
        }
        let is_path = |disk: &&String| {
            disk.starts_with('/') && disk.len() <= PATH_MAX && !disk.contains(char::is_control)
        };
        if let Some(disk) = self.disks.iter().find(|disk| !is_path(disk)) {
            let shown: String = disk.chars().take(80).collect();
            return Err(Invalid::new("spec.disks", format!("{shown:?}"), "an absolute path"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
