//! Timers, wake-ups and messages from other threads.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use block::Buffer;
use uring::{Backend, Full, IoError, Op, Outcome, Reactor, Running, inbox};

use crate::{PATIENCE, Rig, on_both, sockets::pair};

#[test]
fn timers_elapse_in_order_and_not_early() {
    on_both(|rig| {
        let start = Instant::now();
        for (token, after) in [(1, 30), (2, 10), (3, 20)] {
            rig.reactor.submit(token, Op::Timeout { at: start + Duration::from_millis(after) });
        }
        let tokens: Vec<_> = rig.outcomes(3).iter().map(|c| c.token).collect();
        assert_eq!(tokens, [2, 3, 1]);
        assert!(start.elapsed() >= Duration::from_millis(30));
    });
}

#[test]
fn a_cancelled_timer_completes_at_once() {
    on_both(|rig| {
        rig.reactor.submit(1, Op::Timeout { at: Instant::now() + PATIENCE });
        rig.reactor.cancel(1);
        assert!(matches!(rig.outcome(1), Outcome::Elapsed(Err(IoError::Cancelled))));
    });
}

#[test]
fn a_wait_ends_when_its_time_is_up() {
    on_both(|rig| {
        let until = Instant::now() + Duration::from_millis(20);
        let mut none = Vec::new();
        rig.reactor.wait(&mut none, Some(until)).unwrap();
        assert!(none.is_empty() && Instant::now() >= until);
        rig.reactor.wait(&mut none, Some(until)).unwrap();
    });
}

#[test]
fn a_ring_before_the_wait_is_not_lost() {
    on_both(|rig| {
        rig.reactor.waker().wake();
        rig.reactor.waker().wake();
        rig.reactor.wait(&mut Vec::new(), None).unwrap();
    });
}

/// Two reactors hand a number back and forth: one lost ring and this never ends.
fn hand_over(backend: Backend, rounds: u32) {
    let (introduce, introduced) = mpsc::channel();
    let other = thread::spawn(move || {
        let mut reactor = Reactor::new(backend).unwrap();
        let (to_me, mine) = inbox::<(u32, uring::Outbox<u32>)>(4, reactor.waker());
        introduce.send(to_me).unwrap();
        loop {
            reactor.wait(&mut Vec::new(), None).unwrap();
            while let Some((number, answer_to)) = mine.take() {
                answer_to.send(number + 1).unwrap();
                if number + 1 == rounds {
                    return;
                }
            }
        }
    });
    let mut reactor = Reactor::new(backend).unwrap();
    let (to_me, mine) = inbox(4, reactor.waker());
    let to_other = introduced.recv().unwrap();
    let mut number = 0;
    while number < rounds {
        to_other.send((number, to_me.clone())).unwrap();
        loop {
            if let Some(answer) = mine.take() {
                assert_eq!(answer, number + 1);
                number = answer;
                break;
            }
            reactor.wait(&mut Vec::new(), None).unwrap();
        }
    }
    other.join().unwrap();
}

#[test]
fn no_ring_is_lost_between_two_reactors() {
    hand_over(Backend::Uring, 3000);
    hand_over(Backend::Threads, 3000);
}

#[test]
fn a_full_inbox_refuses_and_one_without_a_reactor_says_so() {
    let rig = Rig::new(Backend::Threads);
    let (to, mine) = inbox(2, rig.reactor.waker());
    assert_eq!((to.send(1), to.send(2)), (Ok(()), Ok(())));
    assert_eq!(to.send(3), Err(Full::Full(3)));
    assert_eq!((mine.take(), mine.take(), mine.take()), (Some(1), Some(2), None));
    drop(mine);
    assert_eq!(to.send(4), Err(Full::Gone(4)));
}

#[test]
fn it_says_what_it_runs_on() {
    let running = |backend| Reactor::new(backend).unwrap().running().clone();
    assert_eq!(running(Backend::Uring), Running::Uring);
    assert_eq!(running(Backend::Threads), Running::Threads { instead: None });
    assert_eq!(running(Backend::Auto), Running::Uring);
}

/// Time that this thread has run, as the kernel counts it.
fn ran() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn an_idle_reactor_with_fifty_connections_and_a_timer_costs_next_to_nothing() {
    on_both(|rig| {
        let sockets: Vec<_> = (0..50).map(|_| pair(rig)).collect();
        for (ours, theirs) in &sockets {
            for socket in [ours, theirs] {
                let (socket, buffer) = (socket.clone(), Buffer::zeroed(65_536));
                rig.reactor.submit(1, Op::Receive { socket, buffer, at: 0 });
            }
        }
        let (start, before) = (Instant::now(), ran());
        for tick in 1..=20 {
            let at = start + Duration::from_millis(20 * tick);
            rig.reactor.submit(tick + 1, Op::Timeout { at });
            rig.outcome(tick + 1);
        }
        // Twenty wake-ups in 400 ms are eight times what keep-alives of 50 volumes make. A reactor
        // that looked for work in between would have run for most of the time.
        let cost = ran().saturating_sub(before);
        assert!(cost < Duration::from_millis(20), "ran for {cost:?}");
    });
}
