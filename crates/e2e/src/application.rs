//! An application on a device of a host: it knows what every block must hold, and opens the device
//! again when its host was killed.

use std::{
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use disk::{
    Ledger, NbdClient,
    verify::{self, VerifyError, Workload},
};
use model::VolumeId;

/// One turn: between two of them it looks whether it shall end.
const TURN: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Pauses that are worth telling.
const PAUSE: Duration = Duration::from_millis(20);

/// Where a volume is on a host, and what it must hold.
#[derive(Debug)]
pub struct Place {
    pub volume: VolumeId,
    /// The run folder of the host.
    pub run: PathBuf,
    pub ledger: Ledger,
}

/// What it saw while it worked.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub reads: u64,
    pub writes: u64,
    /// How often its device went away with its host.
    pub devices_lost: u64,
    /// From when to when it looked, and the longest time without an answer in between.
    pub pauses: Vec<(Instant, Instant, Duration)>,
}

#[derive(Debug)]
pub struct Application {
    stop: Arc<AtomicBool>,
    outcome: Receiver<(Place, Result<Seen>)>,
}

/// How it works.
#[derive(Clone, Debug)]
pub struct Tempo {
    /// One command each so long.
    pub every: Duration,
    pub depth: usize,
    pub seed: u64,
    /// Only these blocks, if not all.
    pub within: Option<Range<u64>>,
}

impl Place {
    /// Opens the device as soon as there is one.
    pub fn open(&self, within: Duration) -> Result<NbdClient> {
        let never = AtomicBool::new(false);
        self.open_unless(&never, Instant::now() + within)
    }

    fn open_unless(&self, stop: &AtomicBool, end: Instant) -> Result<NbdClient> {
        loop {
            let opened = self.try_open();
            if opened.is_ok() {
                return opened;
            }
            if Instant::now() > end || stop.load(Ordering::Relaxed) {
                return opened.context("there is no device");
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn try_open(&self) -> Result<NbdClient> {
        let here = host::Local::read(&self.run)?;
        let held = here.volumes.get(&self.volume).context("the volume is not attached")?;
        let device = held.device.as_ref().context("it has no device")?;
        Ok(NbdClient::connect(&device.to_string().parse()?)?)
    }

    /// Writes every block once.
    pub fn fill(&mut self, within: Duration) -> Result<()> {
        let mut device = self.open(within)?;
        verify::fill(&mut device, &mut self.ledger, |_| {}).context("filling")?;
        Ok(())
    }

    /// Compares every block; how many there are.
    pub fn check(&mut self, within: Duration) -> Result<u64> {
        let mut device = self.open(within)?;
        verify::check(&mut device, &mut self.ledger, |_| {}).context("checking")?;
        Ok(self.ledger.blocks())
    }
}

impl Application {
    pub fn start(mut place: Place, tempo: Tempo) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (say, outcome) = channel();
        let told = Arc::clone(&stop);
        thread::spawn(move || {
            let ended = work(&mut place, &tempo, &told);
            // Who does not wait for it has given up already.
            let _ = say.send((place, ended));
        });
        Self { stop, outcome }
    }

    /// Whether it failed; what it says then is told by `end`.
    pub fn has_ended(&mut self) -> Option<(Place, Result<Seen>)> {
        self.outcome.try_recv().ok()
    }

    /// Ends it and waits for what it has under way.
    pub fn end(self, within: Duration) -> Result<(Place, Seen)> {
        self.stop.store(true, Ordering::Relaxed);
        match self.outcome.recv_timeout(within) {
            Ok((place, seen)) => Ok((place, seen?)),
            Err(RecvTimeoutError::Timeout) => bail!("commands had no answer for {within:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the application panicked"),
        }
    }
}

fn work(place: &mut Place, tempo: &Tempo, stop: &AtomicBool) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut last = Instant::now();
    let mut turn = tempo.seed;
    let forever = Instant::now() + Duration::from_hours(24);
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut device) = place.open_unless(stop, forever) else { break };
        while !stop.load(Ordering::Relaxed) {
            turn = turn.wrapping_add(1);
            let workload = Workload {
                duration: TURN,
                depth: tempo.depth,
                pace: Some(tempo.every),
                within: tempo.within.clone(),
                seed: turn,
                ..Workload::default()
            };
            let began = Instant::now();
            match verify::run(&mut device, &mut place.ledger, &workload) {
                Ok(tally) => {
                    seen.reads += tally.reads;
                    seen.writes += tally.writes;
                    if tally.lost_told > 0 {
                        bail!("a flush failed");
                    }
                    // Before the first command of a turn nothing was under way.
                    let idle = began.duration_since(last);
                    let pause = if idle > TURN { idle + tally.gap } else { tally.gap };
                    if pause > PAUSE {
                        seen.pauses.push((last, Instant::now(), pause));
                    }
                    last = Instant::now();
                }
                Err(VerifyError::Client(_)) => {
                    seen.devices_lost += 1;
                    break;
                }
                Err(error) => return Err(error).context("the application"),
            }
        }
    }
    Ok(seen)
}
