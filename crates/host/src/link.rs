//! The stream to one controller: hello, heartbeats, configs in, inventories out.

use std::time::Duration;

use rpc::{Controller, FrameError, HostHello, Redial, ToController, ToHost};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tracing::info;

use crate::{
    agent::{Handle, Heard},
    limits,
};

/// See `rpc::Redial`.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// An inventory goes out this often though nothing changed: whatever was lost is made good.
const AGAIN_EVERY: Duration = Duration::from_secs(10);

/// Keeps one stream up until the task is dropped.
pub(crate) async fn keep(to: Controller, hello: HostHello, agent: Handle) {
    let mut redial = Redial::between(RETRY_MIN, RETRY_MAX);
    loop {
        let (began, mut was_up) = (Instant::now(), false);
        let end = connect(&to, &hello, &agent, &mut was_up).await;
        sleep(redial.ended(&to.address, end, began.elapsed(), was_up)).await;
    }
}

async fn connect(
    to: &Controller,
    hello: &HostHello,
    agent: &Handle,
    was_up: &mut bool,
) -> Result<(), FrameError> {
    let (mut incoming, mut outgoing) = rpc::split(to.dial().await?)?;
    outgoing.greet(&ToController::HostHello(hello.clone())).await?;
    info!(controller = %to.address, "connected to a controller");
    *was_up = true;
    let (say, said) = mpsc::channel(rpc::limits::BACKLOG);
    tokio::select! {
        end = talk(&mut outgoing, said, agent) => end,
        end = listen(&mut incoming, agent, &say) => end,
        () = report(agent, &say) => Ok(()),
    }
}

type Say = mpsc::Sender<ToController>;

async fn talk(
    to: &mut rpc::Sender<ToController>,
    mut said: mpsc::Receiver<ToController>,
    agent: &Handle,
) -> Result<(), FrameError> {
    let mut heard = agent.heard.clone();
    heard.mark_unchanged();
    let mut beat = interval(rpc::limits::HEARTBEAT_PERIOD);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            _ = beat.tick() => ToController::Heartbeat,
            Ok(()) = heard.changed() => match told(&heard.borrow_and_update()) {
                Some(message) => message,
                None => continue,
            },
            message = said.recv() => match message {
                Some(message) => message,
                None => return Ok(()),
            },
        };
        to.send(&message).await?;
    }
}

/// Nodes that answered a moment ago, if there are any: old news would keep the dead alive.
fn told(heard: &Heard) -> Option<ToController> {
    let fresh = heard.at.elapsed() < limits::HEARD_FOR && !heard.nodes.is_empty();
    fresh.then(|| ToController::HeardThrough(heard.nodes.iter().copied().collect()))
}

async fn listen(
    incoming: &mut rpc::Receiver<ToHost>,
    agent: &Handle,
    say: &Say,
) -> Result<(), FrameError> {
    while let Some(message) = incoming.next_known().await? {
        let answer = match message {
            ToHost::Apply(config) => ToController::Applied(agent.apply(config).await),
            ToHost::Inventory => match agent.inventory().await {
                Some(inventory) => ToController::HostInventory(Box::new(inventory)),
                None => return Ok(()),
            },
            ToHost::Refused { reason } => return Err(FrameError::Refused { reason }),
        };
        if say.send(answer).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// At first, at every change, and from time to time.
async fn report(agent: &Handle, say: &Say) {
    let mut turns = agent.turns.clone();
    loop {
        turns.mark_unchanged();
        let Some(inventory) = agent.inventory().await else { return };
        if say.send(ToController::HostInventory(Box::new(inventory))).await.is_err() {
            return;
        }
        if matches!(timeout(AGAIN_EVERY, turns.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}
