//! What people wait for, asked over REST.

use std::{future::Future, time::Duration};

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use rest::{
    Answer, Client, ClientError, ClusterShown, Health, HostShown, NodeShown, PoolPut, PoolShown,
};
use serde_json::Value;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::{Cluster, Member};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The record of the leader may be that of the process before: the next one leads in a moment.
const LEADS_WITHIN: Duration = Duration::from_secs(10);
const NOT_LEADING: &str = "not-leading";

/// Asks until the answer is there. A controller that cannot be reached is asked again: it may come.
pub async fn until<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    within: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    let end = Instant::now() + within;
    loop {
        let answer = ask().await;
        if let Ok(Some(answer)) = answer {
            return Ok(answer);
        }
        if Instant::now() > end {
            let waited = format!("{what} was waited for in vain for {within:?}");
            return match answer {
                Err(error) => Err(error).context(waited),
                Ok(_) => bail!(waited),
            };
        }
        sleep(LOOK_EVERY).await;
    }
}

impl Cluster {
    /// The etcd that belongs to it takes connections.
    pub async fn store_answers(&self, within: Duration) -> Result<()> {
        let at = self.binary.at(Member::Etcd, self.ports().etcd()[0]);
        until("etcd", within, || async { Ok(TcpStream::connect(at).await.ok().map(drop)) }).await
    }

    /// A controller leads, and every node and host is known and healthy.
    pub async fn ready(&self, within: Duration) -> Result<()> {
        let client = self.client()?;
        let nodes = usize::from(self.folder.shape.nodes);
        until("the cluster", within, || async {
            let cluster: ClusterShown = client.get("/v1/cluster").await?;
            let seen: Vec<NodeShown> = client.all("/v1/nodes").await?;
            let hosts: Vec<HostShown> = client.all("/v1/hosts").await?;
            let is_well = |node: &NodeShown| node.status.status.health == Health::Healthy;
            let well = seen.iter().filter(|node| is_well(node)).count();
            let hosts = hosts.iter().filter(|host| host.status.health == Health::Healthy).count();
            Ok((cluster.leader.is_some() && well >= nodes && hosts >= 1).then_some(()))
        })
        .await
    }

    /// A pool on the disk of each node, if there is none yet.
    pub async fn make_pools(&self) -> Result<()> {
        let client = self.client()?;
        for number in 1..=self.folder.shape.nodes {
            let name = format!("pool-{number}");
            let disk = self.folder.disk(number);
            let disk = disk.to_str().context("the folder's path is not UTF-8")?.to_owned();
            let node = Member::Engine(number).to_string();
            let put = PoolPut { id: None, labels: [].into(), node, disks: vec![disk] };
            let path = format!("/v1/pools/{name}?wait=available&timeout=30s");
            let made: Result<Answer<Value>, _> = until(&name, LEADS_WITHIN, || async {
                match client.change(Method::PUT, &path, None, Some(&put)).await {
                    Err(ClientError::Refused(why)) if &*why.code == NOT_LEADING => Ok(None),
                    other => Ok(Some(other)),
                }
            })
            .await?;
            if let Answer::Accepted(_) = made? {
                bail!("{name} was not made in time: see `holdfast why pool {name}`");
            }
        }
        Ok(())
    }

    pub async fn pools(&self) -> Result<Vec<PoolShown>> {
        let client: Client = self.client()?;
        Ok(client.all("/v1/pools").await?)
    }
}
