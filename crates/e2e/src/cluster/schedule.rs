//! Who is struck when, how and for how long: all of it from a seed.

use std::{fmt, time::Duration};

use local::Member;

use super::run::Course;

/// What happens to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// `kill -9`; started again at the end.
    Kill(Member),
    /// SIGSTOP; SIGCONT at the end.
    Stop(Member),
    /// Nothing that the first sends reaches the second, nor the other way if `both`.
    Cut { from: Member, to: Member, both: bool },
    /// Nothing reaches it, and nothing that it sends reaches anybody.
    Isolate(Member),
}

/// A strike with its time, counted from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    pub at: Duration,
    pub lasts: Duration,
    pub strike: Strike,
}

impl Strike {
    /// The kind of it, for a table.
    pub fn kind(self) -> String {
        match self {
            Self::Kill(member) => format!("kill -9 {}", kind(member)),
            Self::Stop(member) => format!("SIGSTOP {}", kind(member)),
            Self::Cut { from, to, both: true } => {
                let mut ends = [kind(from), kind(to)];
                ends.sort_unstable();
                format!("cut {} / {}", ends[0], ends[1])
            }
            Self::Cut { from, to, both: false } => format!("cut {} > {}", kind(from), kind(to)),
            Self::Isolate(member) => format!("cut {} / everybody", kind(member)),
        }
    }

    /// The one who is struck, if it is one.
    pub fn victim(self) -> Option<Member> {
        match self {
            Self::Kill(member) | Self::Stop(member) | Self::Isolate(member) => Some(member),
            Self::Cut { .. } => None,
        }
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(member) => write!(f, "kill -9 {member}"),
            Self::Stop(member) => write!(f, "SIGSTOP {member}"),
            Self::Cut { from, to, both: true } => write!(f, "cut {from} / {to}"),
            Self::Cut { from, to, both: false } => write!(f, "cut {from} > {to}"),
            Self::Isolate(member) => write!(f, "cut {member} / everybody"),
        }
    }
}

fn kind(member: Member) -> &'static str {
    match member {
        Member::Controller(_) => "controller",
        Member::Engine(_) => "engine",
        Member::Host(_) => "host",
        Member::Etcd => "etcd",
    }
}

/// How often somebody is struck, against the others.
fn weight(member: Member) -> u64 {
    match member {
        Member::Engine(_) => 6,
        Member::Controller(_) => 4,
        Member::Etcd => 3,
        Member::Host(_) => 2,
    }
}

/// Strikes for that long. The next one comes on average after a second and a half and each lasts
/// for some seconds, so that two or three are under way at a time.
pub fn schedule(course: &Course, members: &[Member], cuts: bool) -> Vec<Planned> {
    let mut random = Random::new(course.seed);
    let mut at = Duration::ZERO;
    let mut all = Vec::new();
    loop {
        at += Duration::from_millis(100 + random.below(2_800));
        if at >= course.length {
            return all;
        }
        // Sometimes shorter than anybody notices, sometimes longer than everybody's patience.
        let most = [800, 3_000, 9_000][random.index(3)];
        let lasts = Duration::from_millis(50 + random.below(most));
        all.push(Planned { at, lasts, strike: draw(&mut random, members, cuts) });
    }
}

fn draw(random: &mut Random, members: &[Member], cuts: bool) -> Strike {
    let victim = pick(random, members);
    let others: Vec<Member> = members.iter().copied().filter(|other| *other != victim).collect();
    match random.below(if cuts { 10 } else { 6 }) {
        0..=3 => Strike::Kill(victim),
        4 | 5 => Strike::Stop(victim),
        6 => Strike::Isolate(victim),
        _ => {
            let to = pick(random, &others);
            Strike::Cut { from: victim, to, both: random.below(3) > 0 }
        }
    }
}

fn pick(random: &mut Random, members: &[Member]) -> Member {
    let sum: u64 = members.iter().map(|member| weight(*member)).sum();
    let mut left = random.below(sum);
    for member in members {
        match left.checked_sub(weight(*member)) {
            Some(rest) => left = rest,
            None => return *member,
        }
    }
    members[0]
}

/// A small generator (splitmix64): the same seed, the same numbers.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % limit.max(1)
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn members() -> Vec<Member> {
        let engines = (1..=3).map(Member::Engine);
        let controllers = (1..=2).map(Member::Controller);
        engines.chain(controllers).chain([Member::Host(1), Member::Etcd]).collect()
    }

    fn course(seed: u64, minutes: u64) -> Course {
        Course { seed, length: Duration::from_mins(minutes), reads_copies: false }
    }

    #[test]
    fn a_seed_is_a_schedule_and_another_seed_another_one() {
        let of = |seed| schedule(&course(seed, 1), &members(), true);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn everybody_is_struck_in_every_way_and_strikes_overlap() {
        let all = schedule(&course(1, 10), &members(), true);
        let kinds: BTreeSet<String> = all.iter().map(|planned| planned.strike.kind()).collect();
        for who in ["controller", "engine", "host", "etcd"] {
            for how in [format!("kill -9 {who}"), format!("SIGSTOP {who}")] {
                assert!(kinds.contains(&how), "{how} is not in {kinds:?}");
            }
            assert!(kinds.contains(&format!("cut {who} / everybody")), "{who} in {kinds:?}");
        }
        let overlapping =
            all.windows(2).filter(|pair| pair[0].at + pair[0].lasts > pair[1].at).count();
        assert!(overlapping * 3 > all.len(), "{overlapping} of {}", all.len());
    }

    #[test]
    fn nobody_is_cut_off_from_himself() {
        for planned in schedule(&course(2, 10), &members(), true) {
            if let Strike::Cut { from, to, .. } = planned.strike {
                assert_ne!(from, to);
            }
        }
        let without = schedule(&course(2, 10), &members(), false);
        assert!(without.iter().all(|planned| planned.strike.kind().starts_with(['k', 'S'])));
    }
}
