//! The store suite on memory, on a file and on a real etcd; and etcd's own faults and doors.
#![cfg(test)]

mod faults;
mod security;
mod suite;

use std::path::{Path, PathBuf};

use conformance::etcd::{self, Member};
use store::etcd::{Config, Etcd};

/// A real etcd, if there is one.
fn etcd_for(what: &str) -> Option<PathBuf> {
    etcd::installed(what)
}

fn config(members: &[&Member], namespace: &str) -> Config {
    let endpoints = members.iter().map(|member| member.endpoint()).collect();
    Config::new(endpoints, format!("/holdfast/{namespace}/"))
}

async fn connect(member: &Member, namespace: &str) -> Etcd {
    Etcd::connect(&config(&[member], namespace)).await.unwrap()
}

fn alone(etcd: &Path) -> Member {
    Member::alone(etcd, &[])
}
