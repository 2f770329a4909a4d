//! What a controller is started with, and the stores that it can be started on.

use std::{path::PathBuf, str::FromStr};

use model::InstanceId;
use ports::{LeaseRequest, Store, StoreError};
use reconcile::{Config, Periods};
use store::{
    embedded::Embedded,
    etcd::{self, Etcd},
};
use tracing::warn;
use uuid::Uuid;

use crate::DieAt;

#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where this controller takes users' requests, as a standby would reach it.
    pub address: Option<String>,
    pub periods: Periods,
    /// For tests.
    pub dies_at: Option<DieAt>,
}

impl Settings {
    /// A new process: its identity is random.
    pub(crate) fn config(&self) -> Config {
        let instance = InstanceId(Uuid::new_v4());
        let (seed, _) = Uuid::new_v4().as_u64_pair();
        let mut config = Config::new(instance, seed);
        config.periods = self.periods;
        config.address.clone_from(&self.address);
        config
    }
}

/// `embedded:FOLDER` or `etcd:URL[,URL…][/NAMESPACE/]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    Embedded(PathBuf),
    Etcd { endpoints: Vec<String>, namespace: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no store: it must be embedded:FOLDER or etcd:URL[,URL]")]
pub struct UnreadableUrl {
    pub text: String,
}

/// Where the records of a cluster lie in etcd, if nothing else is said.
const NAMESPACE: &str = "/holdfast/default/";

impl FromStr for StoreUrl {
    type Err = UnreadableUrl;

    fn from_str(text: &str) -> Result<Self, UnreadableUrl> {
        let refused = || UnreadableUrl { text: text.to_owned() };
        match text.split_once(':') {
            Some(("embedded", folder)) if !folder.is_empty() => Ok(Self::Embedded(folder.into())),
            Some(("etcd", rest)) => {
                let endpoints: Vec<String> = rest.split(',').map(str::to_owned).collect();
                let usable = |url: &String| {
                    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
                    rest.is_some_and(|host| !host.is_empty())
                };
                if !endpoints.iter().all(usable) {
                    return Err(refused());
                }
                Ok(Self::Etcd { endpoints, namespace: NAMESPACE.to_owned() })
            }
            _ => Err(refused()),
        }
    }
}

/// A store that is ready for a controller.
#[derive(Clone, Debug)]
pub enum Opened {
    Embedded(Embedded),
    Etcd(Etcd),
}

impl StoreUrl {
    /// Opens it for a controller. An embedded one belongs to this process from then on; an etcd may
    /// be away for now. `tls` is for etcd with `https`.
    pub async fn open(&self, tls: Option<etcd::Tls>) -> Result<Opened, StoreError> {
        match self {
            Self::Embedded(folder) => {
                let folder = folder.clone();
                // It is read whole.
                let opening = tokio::task::spawn_blocking(move || Embedded::open(&folder)).await;
                let away = |_| StoreError::Unavailable { reason: "opening it panicked".into() };
                let store = opening.map_err(away)??;
                end_old_leases(&store).await?;
                Ok(Opened::Embedded(store))
            }
            Self::Etcd { endpoints, namespace } => {
                let mut config = etcd::Config::new(endpoints.clone(), namespace.clone());
                config.tls = tls;
                let etcd = Etcd::new(&config)?;
                match etcd.check().await {
                    // Whoever waits for it is here when it comes, and asks nobody to be started.
                    Err(error @ (StoreError::Unavailable { .. } | StoreError::Unknown { .. })) => {
                        warn!(%error, "etcd is away: it is asked until it answers");
                    }
                    checked => checked?,
                }
                Ok(Opened::Etcd(etcd))
            }
        }
    }
}

/// Ends the lease of the controller that had this store before. Only for a store that one process
/// can have open: its lock proves that the other one is gone, so nobody waits for the lease.
async fn end_old_leases(store: &Embedded) -> Result<(), StoreError> {
    let (entries, _) = store.read(&[model::Key::Leader.to_string()]).await?;
    for lease in entries.into_iter().filter_map(|entry| entry.lease) {
        match store.lease(LeaseRequest::Revoke { lease }).await {
            Ok(_) | Err(StoreError::LeaseEnded { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_named_by_one_word_and_refused_by_name() {
        let embedded = "embedded:/var/lib/holdfast".parse();
        assert_eq!(embedded, Ok(StoreUrl::Embedded("/var/lib/holdfast".into())));
        let Ok(StoreUrl::Etcd { endpoints, .. }) = "etcd:http://a:2379,http://b:2379".parse()
        else {
            panic!("no etcd");
        };
        assert_eq!(endpoints, ["http://a:2379", "http://b:2379"]);
        for text in ["", "embedded:", "etcd:", "etcd:a:2379", "etcd:http://", "redis:x"] {
            assert!(text.parse::<StoreUrl>().is_err(), "{text}");
        }
    }
}
