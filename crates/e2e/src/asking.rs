//! Questions to a cluster whose controllers may be away: whichever answers is asked.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use local::{Cluster, Member};
use model::{Bytes, VolumeSpec};
use rest::{
    Answer, Client, ClusterShown, Health, HostShown, NodeShown, PublicationPut, SwitchoverShown,
    VolumePut, VolumeShown,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::{sleep, timeout};

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const CHANGE_WITHIN: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Asking {
    clients: Vec<Client>,
}

impl Asking {
    pub fn of(cluster: &Cluster) -> Result<Self> {
        let urls = (1..=cluster.binary.controllers).map(|number| cluster.url_of(number));
        let clients = urls.map(|url| Ok(Client::new(&url)?)).collect::<Result<_>>()?;
        Ok(Self { clients })
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.first(|client| async move { Ok(client.get(path).await?) }).await
    }

    pub async fn all<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>> {
        self.first(|client| async move { Ok(client.all(path).await?) }).await
    }

    async fn first<'a, T, F: Future<Output = Result<T>>>(
        &'a self,
        ask: impl Fn(&'a Client) -> F,
    ) -> Result<T> {
        let mut why = anyhow::anyhow!("there is no controller");
        for client in &self.clients {
            match timeout(ANSWER_WITHIN, ask(client)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => why = error,
                Err(_) => why = anyhow::anyhow!("no controller answers"),
            }
        }
        Err(why)
    }

    /// A change that waits until it is done.
    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<()> {
        let path = format!("{path}?wait=available&timeout=30s");
        let answer = self.change(Method::PUT, &path, Some(body)).await?;
        match answer {
            Answer::Accepted(_) => bail!("{path} was not done in time"),
            _ => Ok(()),
        }
    }

    pub async fn change(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Answer<Value>> {
        let client = self.clients.first().context("there is no controller")?;
        let changing = client.change(method, path, None, body);
        Ok(timeout(CHANGE_WITHIN, changing).await.context("no answer to a change")??)
    }

    pub async fn make_volume(&self, name: &str, size: Bytes, replicas: u8) -> Result<()> {
        let spec = VolumeSpec { size, replicas, thin: true, ..VolumeSpec::default() };
        let put = VolumePut { id: None, labels: [].into(), spec };
        self.put(&format!("/v1/volumes/{name}"), &put).await
    }

    pub async fn publish(&self, name: &str) -> Result<()> {
        let hosts = vec![Member::Host(1).to_string()];
        let put = PublicationPut { hosts, ..PublicationPut::default() };
        self.put(&format!("/v1/volumes/{name}/publication"), &put).await
    }

    pub async fn volume(&self, name: &str) -> Result<VolumeShown> {
        self.get(&format!("/v1/volumes/{name}")).await
    }

    /// What is not as it should be, in words; nothing if all is.
    pub async fn ailing(&self) -> Result<Vec<String>> {
        let mut words = Vec::new();
        let cluster: ClusterShown = self.get("/v1/cluster").await?;
        if cluster.leader.is_none() {
            words.push("nobody leads".to_owned());
        }
        words.extend(cluster.read_only.map(|why| format!("read-only: {why}")));
        for shown in self.all::<VolumeShown>("/v1/volumes").await? {
            let status = &shown.status.status;
            if status.health != Health::Healthy {
                let name = &shown.volume.meta.name;
                words.push(format!("volume {name} is {}: {:?}", status.health, status.words));
            }
        }
        for shown in self.all::<NodeShown>("/v1/nodes").await? {
            let status = &shown.status.status;
            if status.health != Health::Healthy {
                let name = &shown.node.meta.name;
                words.push(format!("node {name} is {}: {:?}", status.health, status.words));
            }
        }
        for shown in self.all::<HostShown>("/v1/hosts").await? {
            if shown.status.health != Health::Healthy {
                words.push(format!("a host is {}: {:?}", shown.status.health, shown.status.words));
            }
        }
        for shown in self.all::<SwitchoverShown>("/v1/switchovers").await? {
            words.push(format!("volume {} moves: {}", shown.volume, shown.stage));
        }
        Ok(words)
    }

    /// As each controller sees it: one that was away may know only what was.
    async fn ailing_to_anybody(&self) -> Result<Vec<String>> {
        let mut words = Vec::new();
        for client in &self.clients {
            let one = Self { clients: vec![client.clone()] };
            words.extend(one.ailing().await?);
        }
        Ok(words)
    }

    /// Waits until everything is as it should be; what is not, after that time.
    pub async fn healed(&self, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        loop {
            let ailing = self.ailing_to_anybody().await;
            if ailing.as_ref().is_ok_and(Vec::is_empty) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("not healed in {within:?}: {:#?}", ailing?);
            }
            sleep(LOOK_EVERY).await;
        }
    }
}
