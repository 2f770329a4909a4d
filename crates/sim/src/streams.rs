//! Simulated TCP: bytes arrive in order and late, or stop half-way when a process dies.
//!
//! ```text
//!  dialer ── Dialled ──▶ listener     accepts, or refuses
//!         ◀─ Accepted ──
//!         ◀─── Bytes ──▶
//!         ◀── Closed ──▶              after everything that was sent before it
//! ```
//! Whoever uses it keeps a queue of events: each call answers when something arrives, and `next` is
//! asked then. While two parties are cut off from each other, nobody asks: everything waits.

use std::collections::{BTreeMap, VecDeque};

use crate::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Dialer,
    Listener,
}

/// One end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamEnd {
    pub stream: StreamId,
    pub side: Side,
}

/// What reaches one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Somebody dials: accept or refuse.
    Dialled,
    Accepted,
    Bytes(Vec<u8>),
    /// The other side is gone, and so is the stream.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndState {
    /// The listener has not heard of it.
    Unheard,
    Open,
    Gone,
}

#[derive(Debug)]
struct Stream {
    /// Dialer and listener.
    parties: [usize; 2],
    ends: [EndState; 2],
    /// What is on the way to each end, and when it arrives.
    on_the_way: [VecDeque<(u64, Arrival)>; 2],
}

#[derive(Debug, Default)]
pub struct Streams {
    streams: BTreeMap<StreamId, Stream>,
    last: u64,
}

impl Side {
    const fn index(self) -> usize {
        match self {
            Self::Dialer => 0,
            Self::Listener => 1,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Listener,
            Self::Listener => Self::Dialer,
        }
    }
}

impl Stream {
    /// Never before what was sent before it.
    fn push(&mut self, to: Side, at: u64, arrival: Arrival) -> u64 {
        let queue = &mut self.on_the_way[to.index()];
        let at = queue.back().map_or(at, |(last, _)| at.max(*last));
        queue.push_back((at, arrival));
        at
    }

    /// An end is gone; the other one hears of it.
    fn leave(&mut self, side: Side, at: u64) -> u64 {
        self.ends[side.index()] = EndState::Gone;
        self.on_the_way[side.index()].clear();
        self.push(side.other(), at, Arrival::Closed)
    }

    /// Of what an end has sent only so many bytes arrive.
    fn cut_short(&mut self, to: Side, mut left: usize) {
        let mut is_over = false;
        self.on_the_way[to.index()].retain_mut(|(_, arrival)| {
            if let (Arrival::Bytes(bytes), false) = (arrival, is_over) {
                is_over = bytes.len() > left;
                bytes.truncate(left);
                left -= bytes.len();
                return !bytes.is_empty();
            }
            !is_over
        });
    }

    fn bytes_to(&self, to: Side) -> usize {
        let bytes = self.on_the_way[to.index()].iter().map(|(_, arrival)| match arrival {
            Arrival::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        bytes.sum()
    }
}

impl Streams {
    /// Arrives at the listener's party.
    pub fn dial(&mut self, from: usize, to: usize, at: u64) -> StreamId {
        self.last += 1;
        let id = StreamId(self.last);
        let ends = [EndState::Open, EndState::Unheard];
        let on_the_way = [VecDeque::new(), VecDeque::from([(at, Arrival::Dialled)])];
        self.streams.insert(id, Stream { parties: [from, to], ends, on_the_way });
        id
    }

    /// When the dialer hears of it.
    pub fn accept(&mut self, id: StreamId, at: u64) -> Option<u64> {
        let stream = self.streams.get_mut(&id)?;
        stream.ends[Side::Listener.index()] = EndState::Open;
        Some(stream.push(Side::Dialer, at, Arrival::Accepted))
    }

    /// Nobody listens there.
    pub fn refuse(&mut self, id: StreamId, at: u64) -> Option<u64> {
        self.close(StreamEnd { stream: id, side: Side::Listener }, at)
    }

    /// When the last byte arrives.
    pub fn send(&mut self, from: StreamEnd, bytes: Vec<u8>, at: u64) -> Option<u64> {
        let stream = self.streams.get_mut(&from.stream)?;
        let is_open = stream.ends[from.side.index()] == EndState::Open;
        let is_heard = stream.ends[from.side.other().index()] != EndState::Gone;
        (is_open && is_heard).then(|| stream.push(from.side.other(), at, Arrival::Bytes(bytes)))
    }

    /// Everything that was sent still arrives, and then the end.
    pub fn close(&mut self, end: StreamEnd, at: u64) -> Option<u64> {
        let stream = self.streams.get_mut(&end.stream)?;
        if stream.ends[end.side.other().index()] == EndState::Gone {
            self.streams.remove(&end.stream);
            return None;
        }
        Some(stream.leave(end.side, at))
    }

    /// The process of a party is gone. Of what it sent any first part still arrives, then the end.
    /// When, by stream.
    pub fn kill(&mut self, party: usize, at: u64, random: &mut Random) -> Vec<(StreamId, u64)> {
        let mut arrivals = Vec::new();
        self.streams.retain(|id, stream| {
            for side in [Side::Dialer, Side::Listener] {
                let is_its = stream.parties[side.index()] == party;
                if !is_its || stream.ends[side.index()] != EndState::Open {
                    continue;
                }
                if stream.ends[side.other().index()] == EndState::Gone {
                    return false;
                }
                let count = u64::try_from(stream.bytes_to(side.other())).unwrap_or(0);
                let kept = match random.below(3) {
                    0 => 0,
                    1 => count,
                    _ => random.between(0, count),
                };
                stream.cut_short(side.other(), usize::try_from(kept).unwrap_or(0));
                arrivals.push((*id, stream.leave(side, at)));
            }
            true
        });
        arrivals
    }

    /// It breaks for both ends: the dialer hears nothing more, the listener what was sent.
    pub fn reset(&mut self, id: StreamId, at: u64) -> Option<u64> {
        let stream = self.streams.get_mut(&id)?;
        if stream.ends != [EndState::Open; 2] {
            return None;
        }
        stream.on_the_way[Side::Dialer.index()].clear();
        let dialer = stream.push(Side::Dialer, at, Arrival::Closed);
        Some(dialer.max(stream.push(Side::Listener, at, Arrival::Closed)))
    }

    /// What has arrived at either end by now, one at a time.
    pub fn next(&mut self, id: StreamId, now: u64) -> Option<(StreamEnd, Arrival)> {
        loop {
            let stream = self.streams.get_mut(&id)?;
            let is_due = |side: &Side| {
                stream.on_the_way[side.index()].front().is_some_and(|(at, _)| *at <= now)
            };
            let side = [Side::Listener, Side::Dialer].into_iter().find(is_due)?;
            let (_, arrival) = stream.on_the_way[side.index()].pop_front()?;
            let state = stream.ends[side.index()];
            if state == EndState::Gone {
                continue;
            }
            if arrival == Arrival::Closed {
                stream.ends[side.index()] = EndState::Gone;
                if stream.ends == [EndState::Gone; 2] {
                    self.streams.remove(&id);
                }
            }
            return Some((StreamEnd { stream: id, side }, arrival));
        }
    }

    pub fn parties(&self, id: StreamId) -> Option<[usize; 2]> {
        self.streams.get(&id).map(|stream| stream.parties)
    }

    pub fn ids(&self) -> Vec<StreamId> {
        self.streams.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(streams: &mut Streams) -> (StreamEnd, StreamEnd) {
        let stream = streams.dial(1, 2, 10);
        assert_eq!(streams.next(stream, 9), None);
        let (end, arrival) = streams.next(stream, 10).unwrap();
        assert_eq!((end.side, arrival), (Side::Listener, Arrival::Dialled));
        streams.accept(stream, 20);
        let (other, arrival) = streams.next(stream, 20).unwrap();
        assert_eq!((other.side, arrival), (Side::Dialer, Arrival::Accepted));
        (other, end)
    }

    #[test]
    fn bytes_arrive_in_order_and_the_end_after_them() {
        let mut streams = Streams::default();
        let (dialer, listener) = open(&mut streams);
        assert_eq!(streams.send(dialer, vec![1], 50), Some(50));
        assert_eq!(streams.send(dialer, vec![2], 40), Some(50));
        assert_eq!(streams.close(dialer, 30), Some(50));
        assert_eq!(streams.send(listener, vec![3], 30), None, "nobody is there to hear it");
        for expected in [Arrival::Bytes(vec![1]), Arrival::Bytes(vec![2]), Arrival::Closed] {
            assert_eq!(streams.next(dialer.stream, 50), Some((listener, expected)));
        }
        assert!(streams.ids().is_empty());
    }

    #[test]
    fn of_a_process_that_dies_a_first_part_arrives_and_then_the_end() {
        for seed in 0..50 {
            let mut streams = Streams::default();
            let (dialer, listener) = open(&mut streams);
            streams.send(dialer, vec![1, 2, 3], 30);
            streams.send(dialer, vec![4, 5], 40);
            streams.send(listener, vec![9], 30);
            let killed = streams.kill(1, 35, &mut Random::new(seed));
            assert_eq!(killed.len(), 1);
            let mut heard = Vec::new();
            while let Some((end, arrival)) = streams.next(dialer.stream, 50) {
                assert_eq!(end, listener, "the dead hear nothing");
                match arrival {
                    Arrival::Bytes(bytes) => heard.extend(bytes),
                    other => assert_eq!(other, Arrival::Closed),
                }
            }
            assert!([1, 2, 3, 4, 5].starts_with(&heard), "{heard:?}");
            assert!(streams.ids().is_empty());
        }
    }

    #[test]
    fn a_stream_that_breaks_ends_for_both() {
        let mut streams = Streams::default();
        let (dialer, listener) = open(&mut streams);
        streams.send(dialer, vec![1], 30);
        streams.send(listener, vec![2], 30);
        streams.reset(dialer.stream, 25);
        let arrivals: Vec<_> = std::iter::from_fn(|| streams.next(dialer.stream, 60)).collect();
        let expected = [
            (listener, Arrival::Bytes(vec![1])),
            (listener, Arrival::Closed),
            (dialer, Arrival::Closed),
        ];
        assert_eq!(arrivals, expected);
        assert!(streams.ids().is_empty());
    }
}
