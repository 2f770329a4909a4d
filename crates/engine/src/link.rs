//! The stream to one controller: hello, heartbeats, configs in, inventories out.

use std::{pin::Pin, sync::Arc, time::Duration};

use model::{Difference, Inventory, Revision};
use ports::{Engine, EngineError, MembershipError};
use rpc::{
    Asked, Controller, FrameError, Hello, MembershipAnswer, MembershipAsk, Redial, ToController,
    ToEngine,
};
use storage_node::TargetKey;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};
use tracing::info;

use crate::{
    block_devices,
    handle::{Handle, Order},
};

/// See `rpc::Redial`.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// News waits this long for more news to go with it: a rebuild's progress must not flood anyone.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(20);

/// A whole inventory goes out this often though nothing changed: whatever was lost is made good.
const WHOLE_EVERY: Duration = Duration::from_secs(30);

/// Questions on their way to one controller.
pub type Asks = mpsc::Sender<Asked>;

/// Keeps one stream up until the task is dropped. `live` hears of each connection, so that
/// questions about membership find one that works.
pub async fn keep(to: Controller, hello: Hello, engine: Handle, live: mpsc::Sender<Asks>) {
    let mut redial = Redial::between(RETRY_MIN, RETRY_MAX);
    loop {
        let (began, mut was_up) = (Instant::now(), false);
        let end = connect(&to, &hello, &engine, &live, &mut was_up).await;
        sleep(redial.ended(&to.address, end, began.elapsed(), was_up)).await;
    }
}

async fn connect(
    to: &Controller,
    hello: &Hello,
    engine: &Handle,
    live: &mpsc::Sender<Asks>,
    was_up: &mut bool,
) -> Result<(), FrameError> {
    let (mut incoming, mut outgoing) = rpc::split(to.dial().await?)?;
    outgoing.greet(&ToController::Hello(hello.clone())).await?;
    info!(controller = %to.address, "connected to a controller");
    *was_up = true;
    let (say, said) = mpsc::channel(rpc::limits::BACKLOG);
    let (asks, asked) = mpsc::channel(rpc::limits::BACKLOG);
    // A switchboard that is gone means that this engine has its own way to the store.
    let _ = live.send(asks).await;
    let open = Arc::new(std::sync::Mutex::new(Calls::default()));
    let asked_whole = Notify::new();
    let (applying, applied) = mpsc::channel(rpc::limits::BACKLOG);
    tokio::select! {
        end = talk(&mut outgoing, said) => end,
        end = listen(&mut incoming, engine, &applying, &open, &asked_whole) => end,
        () = tell_applied(applied, &say) => Ok(()),
        () = report(engine, &say, &asked_whole) => Ok(()),
        () = forward(asked, &say, &open) => Ok(()),
    }
}

type Outgoing = rpc::Sender<ToController>;
type Say = mpsc::Sender<ToController>;
type Applied = Pin<Box<dyn Future<Output = Result<Revision, EngineError>> + Send>>;

/// Questions without an answer yet. Dropping one tells its asker that nobody knows.
#[derive(Debug, Default)]
struct Calls {
    last: u64,
    open: std::collections::BTreeMap<u64, oneshot::Sender<MembershipAnswer>>,
}

type OpenCalls = Arc<std::sync::Mutex<Calls>>;

async fn talk(to: &mut Outgoing, mut said: mpsc::Receiver<ToController>) -> Result<(), FrameError> {
    let mut beat = interval(rpc::limits::HEARTBEAT_PERIOD);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            _ = beat.tick() => ToController::Heartbeat,
            message = said.recv() => match message {
                Some(message) => message,
                None => return Ok(()),
            },
        };
        to.send(&message).await?;
    }
}

async fn listen(
    incoming: &mut rpc::Receiver<ToEngine>,
    engine: &Handle,
    applying: &mpsc::Sender<Applied>,
    calls: &OpenCalls,
    asked_whole: &Notify,
) -> Result<(), FrameError> {
    while let Some(message) = incoming.next_known().await? {
        match message {
            ToEngine::Apply(config) => {
                if applying.send(Box::pin(engine.begin_apply(config))).await.is_err() {
                    return Ok(());
                }
            }
            ToEngine::Inventory => asked_whole.notify_one(),
            ToEngine::Strike { volume, epoch } => {
                engine.order(Order::Strike { target: TargetKey { volume, epoch } });
            }
            ToEngine::Answer { call, answer } => {
                let open = calls.lock().ok().and_then(|mut calls| calls.open.remove(&call));
                if let Some(open) = open {
                    // Whoever asked may have given up.
                    let _ = open.send(answer);
                }
            }
            ToEngine::Refused { reason } => return Err(FrameError::Refused { reason }),
        }
    }
    Ok(())
}

/// Tells what became of each config, in order. One may take a second: what else the controller says
/// meanwhile, answers of the store among it, does not wait for it.
async fn tell_applied(mut applying: mpsc::Receiver<Applied>, say: &Say) {
    while let Some(applied) = applying.recv().await {
        if say.send(ToController::Applied(applied.await)).await.is_err() {
            return;
        }
    }
}

fn whole(seen: Inventory) -> ToController {
    let devices = block_devices::list();
    ToController::Inventory(Box::new(Inventory { devices, ..seen }))
}

/// Whole first; then what changed, and whole again when asked and from time to time. All come from
/// here, so that each difference adds to what was said before it.
async fn report(engine: &Handle, say: &Say, asked_whole: &Notify) {
    let mut last: Option<Inventory> = None;
    let mut whole_at = Instant::now();
    while let Ok(seen) = engine.inventory().await {
        let message = match &last {
            Some(old) if whole_at.elapsed() < WHOLE_EVERY => {
                ToController::Difference(Box::new(Difference::between(old, &seen)))
            }
            _ => {
                whole_at = Instant::now();
                whole(seen.clone())
            }
        };
        if say.send(message).await.is_err() {
            return;
        }
        let since = seen.sequence;
        last = Some(seen);
        tokio::select! {
            changed = engine.changes(since) => {
                if changed.is_err() {
                    return;
                }
                sleep(ANNOUNCE_AFTER).await;
            }
            () = asked_whole.notified() => last = None,
            () = sleep_until(whole_at + WHOLE_EVERY) => {}
        }
    }
}

async fn forward(mut asked: mpsc::Receiver<Asked>, say: &Say, calls: &OpenCalls) {
    while let Some(Asked { ask, answer }) = asked.recv().await {
        let call = {
            let Ok(mut calls) = calls.lock() else { return };
            calls.last += 1;
            let call = calls.last;
            calls.open.retain(|_, open| !open.is_closed());
            calls.open.insert(call, answer);
            call
        };
        if say.send(ToController::Ask { call, ask }).await.is_err() {
            return;
        }
    }
    // The switchboard is gone: the stream goes on without questions.
    std::future::pending::<()>().await;
}

/// Gives each question to a controller that is connected. Without one the answer is at once that
/// nothing was written, so that a target need not wait to find out.
pub async fn switchboard(mut questions: mpsc::Receiver<Asked>, mut live: mpsc::Receiver<Asks>) {
    let mut links: Vec<Asks> = Vec::new();
    loop {
        let question = tokio::select! {
            biased;
            Some(link) = live.recv() => {
                links.push(link);
                continue;
            }
            question = questions.recv() => match question {
                Some(question) => question,
                None => return,
            },
        };
        links.retain(|link| !link.is_closed());
        let mut rest = Some(question);
        for link in &links {
            let Some(question) = rest.take() else { break };
            rest = link.try_send(question).err().map(mpsc::error::TrySendError::into_inner);
        }
        if let Some(Asked { ask, answer }) = rest {
            let reason = "no controller is connected".to_string();
            let error = MembershipError::Unavailable { reason };
            // Whoever asked may have given up.
            let _ = answer.send(match ask {
                MembershipAsk::Read { .. } => MembershipAnswer::Read(Err(error)),
                MembershipAsk::Swap { .. } => MembershipAnswer::Swapped(Err(error)),
            });
        }
    }
}
