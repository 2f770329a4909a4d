//! Who a certificate is for.

use std::{fmt, str::FromStr};

use crate::{PkiError, limits};

/// What a process may do with its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Takes engines, hosts and users in, and passes changes on to other controllers.
    Controller,
    /// Connects to controllers as the node of its name.
    Engine,
    /// Connects to controllers as the host of its name.
    Host,
    /// Uses REST: people, and the programs that act for them.
    Client,
    /// A member of etcd, or whoever may use it. Of an authority of its own.
    Etcd,
}

const ROLES: &[(Role, &str)] = &[
    (Role::Controller, "controller"),
    (Role::Engine, "engine"),
    (Role::Host, "host"),
    (Role::Client, "client"),
    (Role::Etcd, "etcd"),
];

impl Role {
    /// Whether others dial it, and check its address.
    pub fn is_dialled(self) -> bool {
        matches!(self, Self::Controller | Self::Etcd)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ROLES.iter().find(|(role, _)| role == self);
        f.write_str(found.map_or("unknown", |(_, word)| word))
    }
}

impl FromStr for Role {
    type Err = PkiError;

    fn from_str(text: &str) -> Result<Self, PkiError> {
        let found = ROLES.iter().find(|(_, word)| *word == text);
        found.map(|(role, _)| *role).ok_or_else(|| PkiError::Role { text: text.to_owned() })
    }
}

/// The process that a certificate speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub role: Role,
    pub name: String,
}

impl Peer {
    pub fn new(role: Role, name: &str) -> Result<Self, PkiError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_short = (1..=limits::NAME_LENGTH_MAX).contains(&name.len());
        if !is_short || !name.chars().all(plain) || name.starts_with(['.', '-']) {
            return Err(PkiError::Name { text: name.to_owned() });
        }
        Ok(Self { role, name: name.to_owned() })
    }

    /// The name by which a certificate carries it.
    pub(crate) fn uri(&self) -> String {
        format!("{SCHEME}{}/{}", self.role, self.name)
    }

    pub(crate) fn from_uri(uri: &str) -> Option<Self> {
        let (role, name) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        Self::new(role.parse().ok()?, name).ok()
    }
}

const SCHEME: &str = "holdfast:";

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}
