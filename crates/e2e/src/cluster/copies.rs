//! Every copy of every volume, read alone: the others are killed, so that it must serve.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::{application::Place, asking::Asking};
use local::{Cluster, Member, watch::until};
use rest::{ReplicaShown, TargetShown};
use tokio::task::spawn_blocking;

const PATIENCE: Duration = Duration::from_secs(90);

/// Leaves everything whole again; how many copies were read.
pub async fn check(cluster: &mut Cluster, asking: &Asking, places: Vec<Place>) -> Result<usize> {
    let mut places = places;
    let mut count = 0;
    for number in 1..=cluster.folder.shape.nodes {
        let alone = Member::Engine(number);
        asking.healed(PATIENCE).await?;
        let held = volumes_on(asking, alone).await?;
        let engines = (1..=cluster.folder.shape.nodes).map(Member::Engine);
        let others: Vec<Member> = engines.filter(|member| *member != alone).collect();
        others.iter().try_for_each(|member| cluster.kill(*member))?;
        for name in &held {
            served_by(asking, name, alone).await.with_context(|| format!("{name} on {alone}"))?;
            let id = asking.volume(name).await?.volume.meta.id;
            let at = places.iter().position(|place| place.volume == id);
            let mut place = places.swap_remove(at.context("a volume of nobody")?);
            let (place, checked) = spawn_blocking(move || {
                let checked = place.check(PATIENCE);
                (place, checked)
            })
            .await?;
            checked.with_context(|| format!("the copy of {name} on {alone}"))?;
            places.push(place);
            count += 1;
        }
        others.iter().try_for_each(|member| cluster.start(*member))?;
    }
    asking.healed(PATIENCE).await?;
    Ok(count)
}

/// Names of the volumes with a copy there.
async fn volumes_on(asking: &Asking, node: Member) -> Result<Vec<String>> {
    let replicas: Vec<ReplicaShown> = asking.all("/v1/replicas").await?;
    let here = replicas.into_iter().filter(|replica| replica.node == node.to_string());
    Ok(here.map(|replica| replica.volume).collect())
}

async fn served_by(asking: &Asking, volume: &str, node: Member) -> Result<()> {
    until("the only copy to serve", PATIENCE, || async {
        let target: TargetShown = asking.get(&format!("/v1/targets/{volume}")).await?;
        Ok((target.node == node.to_string() && target.seen == "serving").then_some(()))
    })
    .await
}
