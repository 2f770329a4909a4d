//! When a message arrives, how often, or never.

use model::{Millis, Time};

use crate::{Message, Party, Random, StreamId, StreamPiece};

#[derive(Debug, Default)]
pub struct Network {
    /// Nothing goes from the first to the second until then.
    cuts: Vec<(Party, Party, Time)>,
    pub weather: Weather,
    /// What the weather is made of, the latest last, each with its end.
    spells: Vec<(Weather, Time)>,
    /// What goes to the store and comes from it takes longer by up to this.
    pub store_slower: Millis,
    /// When the last message of a stream arrives: the next one must not overtake it.
    streams: std::collections::BTreeMap<(Party, Party), Time>,
    /// The same for each connection that carries bytes.
    connections: std::collections::BTreeMap<(StreamId, Party), Time>,
}

/// How bad it is everywhere, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    pub lost: u64,
    pub repeated: u64,
    /// Added to a delay, up to this.
    pub slower: Millis,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// In order and once; a lost one is noticed by who counts.
    Stream,
    /// Once, in any order.
    Call,
    /// Any number of times, in any order: its receiver must not mind.
    Loose,
}

/// In good weather: one message in a thousand is lost, and two arrive twice.
const LOST: u64 = 1;
const REPEATED: u64 = 2;
/// Few messages take long.
const DELAY_MIN: u64 = 1;
const DELAY_MAX: u64 = 4;
const DELAY_LONG: u64 = 120;
/// What a connection carries is sent again after this time, if it was lost.
const RESEND_AFTER: u64 = 200;
/// Connections that are remembered before those are forgotten on which nothing is on its way.
const CONNECTIONS_MAX: usize = 256;

fn class(message: &Message) -> Class {
    match message {
        Message::Stream(_) | Message::Watched(_) | Message::Reset(_) => Class::Stream,
        Message::ToStore { .. } | Message::FromStore { .. } => Class::Call,
        _ => Class::Loose,
    }
}

impl Network {
    /// Cuts one direction.
    pub fn cut(&mut self, from: Party, to: Party, until: Time) {
        self.cuts.push((from, to, until));
    }

    /// The latest spell counts; when it ends, an earlier one that lasts longer does again.
    pub fn begin_weather(&mut self, weather: Weather, until: Time) {
        self.spells.push((weather, until));
        self.weather = weather;
    }

    pub fn end_weather(&mut self, now: Time) {
        self.spells.retain(|(_, until)| *until > now);
        self.weather = self.spells.last().map_or_else(Weather::default, |(weather, _)| *weather);
    }

    /// No weather, and a store as near as usual.
    pub fn is_calm(&self) -> bool {
        self.weather == Weather::default()
    }

    pub fn heal(&mut self) {
        self.cuts.clear();
        self.spells.clear();
        self.weather = Weather::default();
        self.store_slower = Millis::ZERO;
    }

    /// Cuts that are over, to be told to those who may talk again.
    pub fn healed(&mut self, now: Time) -> Vec<(Party, Party)> {
        let over: Vec<_> = self
            .cuts
            .iter()
            .filter(|(.., until)| *until <= now)
            .map(|(a, b, _)| (*a, *b))
            .collect();
        self.cuts.retain(|(.., until)| *until > now);
        over
    }

    pub fn is_cut(&self, from: Party, to: Party, now: Time) -> bool {
        self.cuts.iter().any(|(a, b, until)| (*a, *b) == (from, to) && *until > now)
    }

    /// The times at which a message sent now arrives.
    pub fn arrivals(
        &mut self,
        random: &mut Random,
        now: Time,
        from: Party,
        to: Party,
        message: &Message,
    ) -> (Option<Time>, Option<Time>) {
        if from == to {
            return (Some(now), None);
        }
        if let Message::Stream(piece) = message {
            return (Some(self.stream_arrival(random, now, (from, to), piece)), None);
        }
        let class = class(message);
        let lost = if class == Class::Stream { 0 } else { LOST } + self.weather.lost;
        if self.is_cut(from, to, now) || random.chance(lost) {
            return (None, None);
        }
        let mut at = now + self.delay(random);
        if from == Party::Store || to == Party::Store {
            at = at + Millis(random.below(self.store_slower.0));
        }
        if class == Class::Stream {
            let before = self.streams.entry((from, to)).or_default();
            at = at.max(*before);
            *before = at;
        }
        let again = class == Class::Loose && random.chance(REPEATED + self.weather.repeated);
        let second = again.then(|| now + self.delay(random));
        (Some(at), second)
    }

    /// Bytes of a connection are sent again until they arrive, in order: what was sent into a cut
    /// arrives when it is over, however old it is then.
    fn stream_arrival(
        &mut self,
        random: &mut Random,
        now: Time,
        (from, to): (Party, Party),
        piece: &StreamPiece,
    ) -> Time {
        let mut at = now + self.delay(random);
        while random.chance(self.weather.lost.min(500)) {
            at = at + Millis(RESEND_AFTER);
        }
        let cuts = self.cuts.iter().filter(|(a, b, _)| (*a, *b) == (from, to));
        if let Some(until) = cuts.map(|(.., until)| *until).max().filter(|until| *until > now) {
            at = at.max(until + self.delay(random));
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            self.connections.retain(|_, last| *last > now);
        }
        let before = self.connections.entry((piece.stream, to)).or_default();
        *before = at.max(*before);
        *before
    }

    fn delay(&self, random: &mut Random) -> Millis {
        let usual = if random.chance(20) {
            random.between(DELAY_MAX, DELAY_LONG)
        } else {
            random.between(DELAY_MIN, DELAY_MAX)
        };
        Millis(usual + random.below(self.weather.slower.0))
    }
}

#[cfg(test)]
mod tests {
    use model::Revision;

    use super::*;
    use crate::names;

    const NOW: Time = Time(1_000);

    fn parties() -> (Party, Party) {
        (Party::Node(names::node("n1")), Party::Host(names::host("h1")))
    }

    #[test]
    fn a_cut_holds_in_its_direction_until_its_time() {
        let (node, host) = parties();
        let mut network = Network::default();
        network.cut(node, host, Time(2_000));
        assert!(network.is_cut(node, host, NOW));
        assert!(!network.is_cut(host, node, NOW));
        assert!(!network.is_cut(node, host, Time(2_000)));
        assert_eq!(network.healed(Time(2_000)), [(node, host)]);
    }

    /// After the faults nothing of them may come back.
    #[test]
    fn weather_ends_in_time_though_other_weather_began_or_ended_meanwhile() {
        let weather = |lost| Weather { lost, ..Weather::default() };
        let mut network = Network::default();
        network.begin_weather(weather(1), Time(2_000));
        network.begin_weather(weather(2), Time(3_000));
        network.end_weather(Time(2_000));
        assert_eq!(network.weather, weather(2));
        network.end_weather(Time(3_000));
        assert!(network.is_calm());
        network.begin_weather(weather(3), Time(5_000));
        network.begin_weather(weather(4), Time(4_000));
        network.end_weather(Time(4_000));
        assert_eq!(network.weather, weather(3));
        network.heal();
        network.end_weather(Time(4_500));
        assert!(network.is_calm());
    }

    #[test]
    fn a_stream_keeps_its_order_and_comes_once() {
        let (node, host) = parties();
        let mut network = Network::default();
        network.weather.slower = Millis(500);
        network.weather.repeated = 1_000;
        let mut random = Random::new(3);
        let message = Message::Reset(names::instance(names::pack("n1"), 1));
        let mut last = NOW;
        for _ in 0..200 {
            let (at, again) = network.arrivals(&mut random, NOW, node, host, &message);
            assert!(at.is_some_and(|at| at >= last));
            assert_eq!(again, None);
            last = at.unwrap_or(last);
        }
    }

    #[test]
    fn what_a_connection_carries_into_a_cut_arrives_in_order_when_it_is_over() {
        let (node, host) = parties();
        let mut network = Network::default();
        network.cut(node, host, Time(9_000));
        let mut random = Random::new(3);
        let stream = StreamId { dialler: names::instance(names::pack("h1"), 1), number: 1 };
        let event = crate::StreamEvent::Close;
        let message = Message::Stream(StreamPiece { stream, event });
        let mut last = Time(9_000);
        for _ in 0..50 {
            let (at, again) = network.arrivals(&mut random, NOW, node, host, &message);
            assert!(at.is_some_and(|at| at >= last));
            assert_eq!(again, None);
            last = at.unwrap_or(last);
        }
        assert!(last < Time(9_400), "{last:?}");
    }

    #[test]
    fn in_bad_weather_answers_are_lost_and_repeated() {
        let (node, _) = parties();
        let weather = Weather { lost: 300, repeated: 300, slower: Millis::ZERO };
        let mut network = Network { weather, ..Network::default() };
        let mut random = Random::new(3);
        let message = Message::Applied(Ok(Revision(1)));
        let (mut lost, mut repeated) = (0, 0);
        for _ in 0..1_000 {
            match network.arrivals(&mut random, NOW, node, Party::Controller(0), &message) {
                (None, _) => lost += 1,
                (_, Some(_)) => repeated += 1,
                _ => {}
            }
        }
        assert!((200..400).contains(&lost), "{lost}");
        assert!((100..400).contains(&repeated), "{repeated}");
    }
}
