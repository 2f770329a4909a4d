//! The network between the processes: loopback, or a machine of its own for each of them.
//!
//! ```text
//!  node-1 ─ eth0 ┐
//!  node-2 ─ eth0 ┼─ bridge "wire", with whoever runs the cluster
//!  host-1 ─ eth0 ┘
//! ```
//! A namespace plays a machine. A cut is an entry in the table of neighbours that names a card that
//! nobody has: what is sent there vanishes without a word, as behind a pulled cable.

use std::{
    net::{IpAddr, Ipv4Addr},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::Member;

/// Where processes live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// All on the loopback of this machine.
    #[default]
    Loopback,
    /// Each in a namespace of its own, which `build` made.
    Namespaces,
}

/// Addresses that are for examples: no real machine has one.
const NET: [u8; 3] = [192, 0, 2];
/// Whoever runs the cluster.
const OWN: u8 = 254;

impl Network {
    pub fn ip(self, member: Member) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Namespaces => address(number(member)).into(),
        }
    }

    /// Runs a program where the member lives. Its process is the program's own.
    pub(crate) fn command(self, member: Member, program: &std::ffi::OsStr) -> Command {
        match self {
            Self::Loopback => Command::new(program),
            Self::Namespaces => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{member}")).arg("--").arg(program);
                command
            }
        }
    }

    /// Makes a namespace for each, in namespaces of networks and mounts that are this process's
    /// own: they end with it, and the machine never sees them.
    pub fn build(members: &[Member]) -> Result<()> {
        // Names of namespaces are kept there.
        run("mount", "-t tmpfs tmpfs /run")?;
        ip("link set lo up")?;
        ip("link add wire type bridge")?;
        ip(&format!("addr add {}/24 dev wire", address(OWN)))?;
        ip("link set wire up")?;
        for member in members {
            let (at, n) = (address(number(*member)), number(*member));
            ip(&format!("netns add {member}"))?;
            ip(&format!("link add veth{n} type veth peer name eth0 netns {member}"))?;
            ip(&format!("link set veth{n} master wire up"))?;
            ip(&format!("-n {member} link set eth0 address {}", card(n)))?;
            ip(&format!("-n {member} addr add {at}/24 dev eth0"))?;
            ip(&format!("-n {member} link set eth0 up"))?;
            ip(&format!("-n {member} link set lo up"))?;
        }
        Ok(())
    }

    /// What `from` sends to `to` vanishes.
    pub fn cut(from: Member, to: Member) -> Result<()> {
        neighbour(from, to, &card_of_nobody(number(to)))
    }

    pub fn mend(from: Member, to: Member) -> Result<()> {
        neighbour(from, to, &card(number(to)))
    }
}

fn neighbour(from: Member, to: Member, card: &str) -> Result<()> {
    let at = address(number(to));
    ip(&format!("-n {from} neigh replace {at} lladdr {card} dev eth0 nud permanent"))
}

/// The last part of an address: members of a kind are fewer than twenty.
fn number(member: Member) -> u8 {
    let of = |first: u8, number: u16| first.saturating_add(u8::try_from(number).unwrap_or(u8::MAX));
    match member {
        Member::Controller(number) => of(20, number),
        Member::Engine(number) => of(40, number),
        Member::Host(number) => of(60, number),
        Member::Etcd => 80,
    }
}

fn address(number: u8) -> Ipv4Addr {
    let [a, b, c] = NET;
    Ipv4Addr::new(a, b, c, number)
}

fn card(number: u8) -> String {
    format!("02:00:00:00:00:{number:02x}")
}

fn card_of_nobody(number: u8) -> String {
    format!("02:00:00:00:ff:{number:02x}")
}

fn ip(words: &str) -> Result<()> {
    run("ip", words)
}

fn run(program: &str, words: &str) -> Result<()> {
    let ended = Command::new(program)
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {program}"))?;
    if !ended.status.success() {
        bail!("{program} {words}: {}", String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ports::MEMBERS_MAX;

    #[test]
    fn no_two_members_have_one_address() {
        let kinds = [Member::Controller, Member::Engine, Member::Host];
        let members = kinds.iter().flat_map(|kind| (1..MEMBERS_MAX).map(kind));
        let all: Vec<Member> = members.chain([Member::Etcd]).collect();
        let numbers: BTreeSet<u8> = all.iter().map(|member| number(*member)).collect();
        assert_eq!(numbers.len(), all.len());
        assert!(!numbers.contains(&OWN));
    }
}
