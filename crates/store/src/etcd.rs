//! The store port on an etcd cluster.
//!
//! It speaks etcd's v3 API itself, over tonic, instead of using the crate `etcd-client`: that one
//! needs protoc on every machine that builds, and chooses members itself, so that a request that
//! was never sent cannot be told from one that was never answered: `Unavailable` from `Unknown`.

mod config;
mod connection;
mod convert;
mod failure;
mod port;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

pub use config::{Config, Credentials, Tls};
pub use port::Etcd;
pub use watch::EtcdWatch;
