//! A host's agent without a kernel: it has each path that it is told of, at once.

use std::net::SocketAddr;

use model::{
    HostId, HostInventory, InstanceId, NodeId, PathHealth, PathSeen, Revision, Scope, VolumeId,
};
use rpc::{HostHello, ToController, ToHost, split};
use tokio::{
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
    time::{Duration, interval, sleep},
};

/// A running agent; dropping it kills it.
#[derive(Debug)]
pub struct Host {
    pub host: HostId,
    _tasks: JoinSet<()>,
}

impl Host {
    /// It talks to one controller after the other, whichever answers.
    pub fn start(number: u128, controllers: &[SocketAddr]) -> Self {
        let host = HostId::from_u128(number);
        let instance = InstanceId(uuid::Uuid::new_v4());
        let mut tasks = JoinSet::new();
        for controller in controllers.iter().copied() {
            tasks.spawn(async move {
                loop {
                    let _ = talk(controller, host, instance).await;
                    sleep(Duration::from_millis(30)).await;
                }
            });
        }
        Self { host, _tasks: tasks }
    }
}

async fn talk(to: SocketAddr, host: HostId, instance: InstanceId) -> Result<(), rpc::FrameError> {
    let stream = TcpStream::connect(to).await?;
    let (mut incoming, mut outgoing) = split::<ToHost, ToController>(stream)?;
    let name = format!("h{}", host.0.as_u128());
    let nqn = format!("nqn.2026-01.holdfast:{name}");
    let (version, speaks) = ("test".into(), rpc::Speaks::OWN);
    let hello = HostHello { host, name, nqn, node: None, instance, version, speaks };
    outgoing.send(&ToController::HostHello(hello)).await?;
    let mut inventory = HostInventory {
        host,
        instance,
        generation: Revision::ZERO,
        sequence: 1,
        paths: [].into(),
        shares: [].into(),
    };
    outgoing.send(&ToController::HostInventory(Box::new(inventory.clone()))).await?;
    let (heard, mut hearing) = mpsc::channel(16);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok(Some(message)) = incoming.next().await {
            if heard.send(message).await.is_err() {
                break;
            }
        }
    });
    let mut beat = interval(rpc::limits::HEARTBEAT_PERIOD);
    loop {
        let message = tokio::select! {
            message = hearing.recv() => message,
            _ = beat.tick() => {
                outgoing.send(&ToController::Heartbeat).await?;
                continue;
            }
        };
        match message {
            None | Some(ToHost::Refused { .. }) => return Ok(()),
            Some(ToHost::Inventory) => {}
            Some(ToHost::Apply(config)) => {
                if config.head.scope == Scope::Whole {
                    inventory.paths.clear();
                }
                for (key, part) in &config.parts {
                    let model::Key::Volume(volume) = key else { continue };
                    let path = part.as_ref().and_then(|part| part.path.as_ref());
                    follow(&mut inventory, *volume, path.map(|path| (path.node, path.epoch)));
                }
                inventory.generation = config.head.generation;
                let answer = Ok(config.head.generation);
                outgoing.send(&ToController::Applied(answer)).await?;
            }
        }
        inventory.sequence += 1;
        outgoing.send(&ToController::HostInventory(Box::new(inventory.clone()))).await?;
    }
}

fn follow(inventory: &mut HostInventory, volume: VolumeId, path: Option<(NodeId, model::Epoch)>) {
    match path {
        Some((node, epoch)) => {
            let seen = PathSeen { node, epoch, health: PathHealth::Live };
            inventory.paths.insert(volume, vec![seen]);
        }
        None => {
            inventory.paths.remove(&volume);
        }
    }
}
