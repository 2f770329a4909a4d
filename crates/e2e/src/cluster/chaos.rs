//! Carries out a schedule: begins and ends strikes at their times, and keeps everybody running who
//! is not meant to be down.

use std::{
    collections::BTreeMap,
    process::ExitStatus,
    time::{Duration, Instant},
};

use anyhow::Result;
use local::{Cluster, Member, Network};
use rustix::process::Signal;
use tokio::time::sleep_until;

use super::{Planned, Strike, Watcher};

/// Who ends by itself is started again after this time, as a supervisor would.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A strike that was carried out.
#[derive(Clone, Debug)]
pub struct Struck {
    pub kind: String,
    pub began: Instant,
    pub ended: Instant,
    /// Strikes that were under way at its beginning, this one among them.
    pub at_once: usize,
}

/// Who is struck, and how often at once.
#[derive(Debug)]
pub struct Chaos {
    pub cluster: Cluster,
    killed: BTreeMap<Member, usize>,
    stopped: BTreeMap<Member, usize>,
    cuts: BTreeMap<(Member, Member), usize>,
    /// Who ended by itself, and when it is started again.
    due: BTreeMap<Member, Instant>,
    pub struck: Vec<Struck>,
    /// Who ended by itself, and how.
    pub ended: Vec<(Member, ExitStatus)>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Begin,
    End,
}

impl Chaos {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            killed: BTreeMap::new(),
            stopped: BTreeMap::new(),
            cuts: BTreeMap::new(),
            due: BTreeMap::new(),
            struck: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Begins and ends all strikes. `goes_on` is asked between them.
    pub async fn carry_out(
        &mut self,
        schedule: &[Planned],
        watcher: &Watcher,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<()> {
        let mut acts: Vec<(Duration, usize, Act)> = Vec::new();
        for (at, planned) in schedule.iter().enumerate() {
            acts.push((planned.at, at, Act::Begin));
            acts.push((planned.at + planned.lasts, at, Act::End));
        }
        acts.sort_by_key(|(at, index, _)| (*at, *index));
        let began = Instant::now();
        let mut under_way = 0_usize;
        for (at, index, act) in acts {
            let due = began + at;
            while Instant::now() < due && goes_on() {
                sleep_until(due.min(Instant::now() + LOOK_EVERY).into()).await;
                self.keep()?;
            }
            if !goes_on() {
                return Ok(());
            }
            let Planned { strike, lasts, .. } = schedule[index];
            match act {
                Act::Begin => {
                    under_way += 1;
                    let kind = watcher.kind(strike);
                    println!("{:7.2} s  {strike} for {lasts:?}", began.elapsed().as_secs_f64());
                    let began = Instant::now();
                    let ended = began + lasts;
                    self.struck.push(Struck { kind, began, ended, at_once: under_way });
                    self.begin(strike)?;
                }
                Act::End => {
                    under_way -= 1;
                    self.end(strike)?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, strike: Strike) -> Result<()> {
        match strike {
            Strike::Kill(member) => {
                *self.killed.entry(member).or_default() += 1;
                self.due.remove(&member);
                self.cluster.kill(member)
            }
            Strike::Stop(member) => {
                *self.stopped.entry(member).or_default() += 1;
                self.signal(member, Signal::STOP)
            }
            Strike::Cut { .. } | Strike::Isolate(_) => {
                for (from, to) in self.ways(strike) {
                    let count = self.cuts.entry((from, to)).or_default();
                    *count += 1;
                    if *count == 1 {
                        Network::cut(from, to)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn end(&mut self, strike: Strike) -> Result<()> {
        match strike {
            Strike::Kill(member) => {
                if less(&mut self.killed, &member) {
                    self.cluster.start(member)?;
                }
            }
            Strike::Stop(member) => {
                if less(&mut self.stopped, &member) {
                    self.signal(member, Signal::CONT)?;
                }
            }
            Strike::Cut { .. } | Strike::Isolate(_) => {
                for (from, to) in self.ways(strike) {
                    if less(&mut self.cuts, &(from, to)) {
                        Network::mend(from, to)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Who does not run has nothing to be stopped.
    fn signal(&self, member: Member, signal: Signal) -> Result<()> {
        match self.cluster.pid(member) {
            Some(_) => self.cluster.signal(member, signal),
            None => Ok(()),
        }
    }

    fn ways(&self, strike: Strike) -> Vec<(Member, Member)> {
        match strike {
            Strike::Cut { from, to, both: true } => vec![(from, to), (to, from)],
            Strike::Cut { from, to, both: false } => vec![(from, to)],
            Strike::Isolate(member) => {
                let all = self.cluster.members().into_iter();
                let others = all.filter(|other| *other != member);
                others.flat_map(|other| [(member, other), (other, member)]).collect()
            }
            Strike::Kill(_) | Strike::Stop(_) => Vec::new(),
        }
    }

    /// Starts again who ended by itself.
    pub fn keep(&mut self) -> Result<()> {
        for (member, status) in self.cluster.ended()? {
            println!("           {member} ended by itself: {status}");
            self.ended.push((member, status));
            if !self.killed.contains_key(&member) {
                self.due.insert(member, Instant::now() + AGAIN_AFTER);
            }
        }
        let now = Instant::now();
        let due: Vec<Member> =
            self.due.extract_if(.., |_, at| *at <= now).map(|(member, _)| member).collect();
        due.into_iter().try_for_each(|member| self.cluster.start(member))
    }

    /// Everybody who crashed, in words: who is killed or told to end does not.
    pub fn crashes(&self) -> Vec<String> {
        // An end in good order, or an error at the start that a supervisor is for.
        let is_crash = |status: &ExitStatus| !matches!(status.code(), Some(0 | 1));
        let crashed = self.ended.iter().filter(|(_, status)| is_crash(status));
        crashed.map(|(member, status)| format!("{member}: {status}")).collect()
    }
}

/// Counts one less; whether none is left.
fn less<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
        return true;
    }
    false
}
