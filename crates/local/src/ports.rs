//! Ports of a cluster on loopback, all from one number on.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// Where each process listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    pub first: u16,
}

/// Members of one kind that a cluster on one machine may have.
pub(crate) const MEMBERS_MAX: u16 = 20;

/// Ports from the first on that are a cluster's own.
const SPAN: u16 = 4 * (MEMBERS_MAX + 1);

/// Below the ports that the kernel gives to those who dial: one of an engine that is away for a
/// moment must not be given to anybody.
const SEARCHED: Range<u16> = 12_000..30_000;

impl Ports {
    /// Those that every command tries if nothing else is said.
    pub const USUAL: Self = Self { first: 7420 };

    /// Some that nobody uses.
    pub fn unused() -> Result<Self> {
        // Several that start at once begin at different places.
        let steps = (SEARCHED.end - SEARCHED.start) / SPAN;
        let begin = u16::try_from(std::process::id() % u32::from(steps))?;
        for step in (0..steps).map(|step| (begin + step) % steps) {
            let ports = Self { first: SEARCHED.start + step * SPAN };
            if ports.taken().is_none() {
                return Ok(ports);
            }
        }
        bail!("no {SPAN} ports in a row are free")
    }

    /// The first that somebody else has.
    pub fn taken(self) -> Option<u16> {
        let mut all = self.first..self.first.saturating_add(SPAN);
        all.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err())
    }

    pub fn controller(self, number: u16) -> SocketAddr {
        self.at(2 * (number - 1))
    }

    pub fn rest(self, number: u16) -> SocketAddr {
        self.at(2 * (number - 1) + 1)
    }

    pub fn engine(self, number: u16) -> SocketAddr {
        self.at(2 * MEMBERS_MAX + number)
    }

    pub fn admin(self, number: u16) -> SocketAddr {
        self.at(3 * MEMBERS_MAX + number)
    }

    /// For those who ask, and for members of its own: there are none.
    pub fn etcd(self) -> [SocketAddr; 2] {
        [self.at(4 * MEMBERS_MAX + 2), self.at(4 * MEMBERS_MAX + 3)]
    }

    fn at(self, offset: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.first.saturating_add(offset)).into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_processes_share_a_port() {
        let ports = Ports::USUAL;
        let each = |number| {
            let (control, rest) = (ports.controller(number), ports.rest(number));
            [control, rest, ports.engine(number), ports.admin(number)]
        };
        let all: BTreeSet<_> = (1..=MEMBERS_MAX).flat_map(each).chain(ports.etcd()).collect();
        assert_eq!(all.len(), usize::from(4 * MEMBERS_MAX + 2));
        let last = all.last().unwrap().port();
        assert!(last < ports.first + SPAN, "{last}");
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let ports = Ports::unused().unwrap();
        let _other = TcpListener::bind(ports.engine(2)).unwrap();
        assert_eq!(ports.taken(), Some(ports.engine(2).port()));
    }
}
