//! A script from a seed: a cluster worth the name, people who use it, and faults that overlap and
//! do not wait for health.

mod hardship;

use std::collections::BTreeMap;

use model::{Bytes, Millis};

use crate::{
    Action, Ask, DiskSetup, Fault, Line, Party, Random, Script, Setup, Weather, Wish, names,
};

/// Things happen for this long, then the world must heal.
const BUSY: u64 = 100_000;

struct Maker {
    random: Random,
    setup: Setup,
    nodes: Vec<String>,
    pools: Vec<String>,
    hosts: Vec<String>,
    /// Labels of volumes that were asked for, whether or not they still are.
    volumes: Vec<String>,
    snapshots: Vec<String>,
    lines: Vec<Line>,
    /// A node that was taken away for ever.
    lost: Option<String>,
    swapped: bool,
}

pub fn generate(seed: u64) -> Script {
    let mut maker = Maker {
        random: Random::new(seed ^ 0x5c71_9700),
        setup: Setup::default(),
        nodes: Vec::new(),
        pools: Vec::new(),
        hosts: Vec::new(),
        volumes: Vec::new(),
        snapshots: Vec::new(),
        lines: Vec::new(),
        lost: None,
        swapped: false,
    };
    maker.machines();
    maker.beginning();
    maker.trouble();
    maker.ending();
    maker.rarities();
    let Maker { setup, lines, .. } = maker;
    let mut script = Script { setup, lines, ..Script::default() };
    hardship::add(seed, BUSY, &mut script);
    script.lines.sort_by_key(|line| line.at);
    hanging_disks(seed, &mut script);
    script.lines.sort_by_key(|line| line.at);
    script
}

/// Disks that hang, in every seed: the glue of a node must not wait for one of them. A random of
/// their own, so that the rest of a script does not depend on them.
fn hanging_disks(seed: u64, script: &mut Script) {
    let mut random = Random::new(seed ^ 0x4a6d_15c5);
    for _ in 0..random.between(1, 5) {
        let at = Millis(random.between(12_000, BUSY));
        let Some(DiskSetup { label, .. }) = random.pick(&script.setup.disks).cloned() else {
            break;
        };
        let span = Millis(random.between(200, 12_000));
        let fault = Fault::HangDisk { pool: label, span };
        script.lines.push(Line { at, action: Action::Fault(fault) });
    }
}

impl Maker {
    fn machines(&mut self) {
        self.setup.controllers = u8::try_from(self.random.between(2, 3)).unwrap_or(3);
        let count = self.random.between(5, 7);
        for number in 1..=count {
            let node = format!("n{number}");
            let zone = ["a", "b", "c"][usize::try_from(number % 3).unwrap_or(0)];
            let labels = BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
            self.setup.nodes.insert(node.clone(), labels);
            for disk in 1..=self.random.between(1, 2) {
                let label = format!("p{number}{disk}");
                let capacity = Bytes::gib(self.random.between(40, 160));
                let disk = DiskSetup { label: label.clone(), node: node.clone(), capacity };
                self.setup.disks.push(disk);
                self.pools.push(label);
            }
            self.nodes.push(node);
        }
        for number in 1..=self.random.between(2, 3) {
            let host = format!("h{number}");
            let beside = self.random.chance(400);
            let node = beside.then(|| self.pick(|maker| &maker.nodes)).flatten();
            self.setup.hosts.insert(host.clone(), node);
            self.hosts.push(host);
        }
    }

    fn pick<T: Clone>(&mut self, from: impl Fn(&Self) -> &Vec<T>) -> Option<T> {
        let count = u64::try_from(from(self).len()).unwrap_or(0);
        let index = usize::try_from(self.random.below(count)).unwrap_or(0);
        from(self).get(index).cloned()
    }

    fn ask(&mut self, at: u64, ask: Ask) {
        self.lines.push(Line { at: Millis(at), action: Action::Ask(ask) });
    }

    fn fault(&mut self, at: u64, fault: Fault) {
        self.lines.push(Line { at: Millis(at), action: Action::Fault(fault) });
    }

    /// Pools, and at least eight volumes of different shapes.
    fn beginning(&mut self) {
        for disk in self.setup.disks.clone() {
            self.ask(0, Ask::CreatePool { pool: disk.label, node: disk.node });
        }
        for number in 0..self.random.between(8, 11) {
            let at = 4_000 + number * 300;
            self.create(at);
            if self.random.chance(650) {
                self.publish(at + 1_500);
            }
        }
    }

    fn create(&mut self, at: u64) {
        let volume = format!("v{}", self.volumes.len() + 1);
        let replicas = u8::try_from([1, 2, 2, 3, 3, 3][self.index(6)]).unwrap_or(1);
        let group = self.random.chance(200).then(|| "g".to_owned());
        let spread = self.random.chance(300).then(|| "zone".to_owned());
        let from = if self.random.chance(150) { self.pick(|m| &m.snapshots) } else { None };
        let reused = self.random.chance(150);
        let name = if reused { self.pick(|maker| &maker.volumes) } else { None };
        let wish = Wish {
            volume: volume.clone(),
            name,
            size: Bytes::gib(self.random.between(1, 12)),
            replicas,
            thin: self.random.chance(350),
            many: self.random.chance(120),
            spread: spread.into_iter().collect(),
            group,
            from,
            rebuild_wait: self
                .random
                .chance(500)
                .then(|| Millis(self.random.between(0, 20) * 1_000)),
            ..Wish::default()
        };
        self.volumes.push(volume);
        self.ask(at, Ask::CreateVolume(wish));
    }

    fn index(&mut self, bound: u64) -> usize {
        usize::try_from(self.random.below(bound)).unwrap_or(0)
    }

    fn publish(&mut self, at: u64) {
        let (Some(volume), Some(host)) = (self.pick(|m| &m.volumes), self.pick(|m| &m.hosts))
        else {
            return;
        };
        let within = Millis(self.random.between(3, 40) * 1_000);
        self.ask(at, Ask::Publish { volume, hosts: vec![host], within });
    }

    fn trouble(&mut self) {
        let mut at = 9_000;
        while at < BUSY {
            if self.random.chance(480) {
                self.anything(at);
            } else {
                self.breakage(at);
            }
            at += self.random.between(50, 1_900);
        }
    }

    fn span(&mut self) -> Millis {
        let longest = if self.random.chance(150) { 60_000 } else { 9_000 };
        Millis(self.random.between(100, longest))
    }

    fn anything(&mut self, at: u64) {
        let volume = self.pick(|maker| &maker.volumes).unwrap_or_default();
        let host = self.pick(|maker| &maker.hosts).unwrap_or_default();
        let node = self.pick(|maker| &maker.nodes).unwrap_or_default();
        let ask = match self.random.below(30) {
            0..=3 => return self.create(at),
            4..=9 => return self.publish(at),
            10..=13 => Ask::Unpublish { volume, host, force: self.random.chance(300) },
            14 | 15 => Ask::DeleteVolume { volume, with_snapshots: self.random.chance(700) },
            16 => Ask::Resize { volume, size: Bytes::gib(self.random.between(2, 20)) },
            17 | 18 => {
                let replicas = u8::try_from(self.random.between(1, 3)).unwrap_or(1);
                Ask::Scale { volume, replicas }
            }
            19..=21 => {
                let snapshot = format!("s{}", self.snapshots.len() + 1);
                self.snapshots.push(snapshot.clone());
                let within = Millis(self.random.between(2, 30) * 1_000);
                Ask::Snapshot { snapshot, volume, within }
            }
            22 => {
                let Some(snapshot) = self.pick(|maker| &maker.snapshots) else { return };
                Ask::DeleteSnapshot { snapshot }
            }
            23 | 24 => {
                let consumers = if self.random.chance(650) { vec![host] } else { Vec::new() };
                Ask::Share { volume, consumers }
            }
            25 => Ask::Cordon { node },
            26 => Ask::Drain { node },
            27 => Ask::Undrain { node },
            28 => Ask::Uncordon { node },
            _ => return self.pool_request(at),
        };
        self.ask(at, ask);
    }

    fn pool_request(&mut self, at: u64) {
        let Some(pool) = self.pick(|maker| &maker.pools) else { return };
        if self.random.chance(600) {
            self.ask(at, Ask::DeletePool { pool });
        } else {
            self.ask(
                at,
                Ask::Promote { volume: self.volumes.first().cloned().unwrap_or_default() },
            );
        }
    }

    fn breakage(&mut self, at: u64) {
        let node = self.pick(|maker| &maker.nodes).unwrap_or_default();
        let pool = self.pick(|maker| &maker.pools).unwrap_or_default();
        let span = self.span();
        let engine = Party::Node(names::node(&node));
        let host = Party::Host(names::host(&self.pick(|m| &m.hosts).unwrap_or_default()));
        let seats = u64::from(self.setup.controllers);
        let seat = u8::try_from(self.random.below(seats)).unwrap_or(0);
        let controller = Party::Controller(seat);
        let fault = match self.random.below(50) {
            0..=6 => Fault::Kill { party: engine, down: Millis(self.random.between(50, 4_000)) },
            7..=9 => Fault::PowerOff { node, down: Some(span) },
            10 | 11 => Fault::Kill { party: host, down: span },
            12..=15 => Fault::Kill { party: controller, down: span },
            16 | 17 => Fault::Pause { party: engine, span },
            18 => Fault::Pause { party: host, span },
            19 | 20 => Fault::Pause { party: controller, span },
            21..=26 => {
                let (one, other) = (self.anyone(), self.anyone());
                Fault::Cut { one, other, span }
            }
            27 | 28 => {
                let (from, to) = (self.anyone(), self.anyone());
                Fault::CutOneWay { from, to, span }
            }
            29..=31 => Fault::Isolate { party: self.anyone(), span },
            32 => Fault::Flap { node, every: Millis(self.random.between(2_000, 8_000)), span },
            33 | 34 => Fault::StoreSilent { span: Millis(span.0.min(8_000)) },
            35 => Fault::StoreRefusing { span: Millis(span.0.min(8_000)) },
            36 | 37 => Fault::StoreSlow { by: Millis(self.random.between(50, 900)), span },
            38 => Fault::StoreCompact,
            39 | 40 => Fault::StoreEndsLeases,
            41 => Fault::Garble { kind: "volume".into(), label: self.volume_label(), span },
            42 => Fault::FaultPool { pool, span: Some(span) },
            43 => Fault::PullDisk { pool, span: Some(span) },
            44 => Fault::HangDisk { pool, span },
            45 => return self.disaster(at, &node, pool),
            46 | 47 => {
                let weather = Weather {
                    lost: self.random.between(0, 200),
                    repeated: self.random.between(0, 200),
                    slower: Millis(self.random.between(0, 400)),
                };
                Fault::Weather { weather, span }
            }
            48 => Fault::ClockAhead { controller: seat, by: Millis(self.random.between(0, 5_000)) },
            _ => Fault::ClockBehind { controller: seat, by: Millis(self.random.between(0, 5_000)) },
        };
        self.fault(at, fault);
    }

    fn volume_label(&mut self) -> String {
        self.pick(|maker| &maker.volumes).unwrap_or_default()
    }

    /// Once in a while something is gone for ever: a machine, which is then forgotten, or a disk.
    fn disaster(&mut self, at: u64, node: &str, pool: String) {
        if self.lost.is_none() && !self.swapped && self.random.chance(400) {
            if self.random.chance(500) {
                self.lost = Some(node.to_owned());
                self.fault(at, Fault::PowerOff { node: node.to_owned(), down: None });
                let later = at + self.random.between(1_000, 60_000);
                self.ask(later, Ask::ForgetNode { node: node.to_owned() });
            } else {
                self.swapped = true;
                self.fault(at, Fault::SwapDisk { pool });
            }
        } else {
            self.fault(
                at,
                Fault::Kill { party: Party::Node(names::node(node)), down: Millis(200) },
            );
        }
    }

    fn anyone(&mut self) -> Party {
        let nodes: Vec<Party> = self.nodes.iter().map(|n| Party::Node(names::node(n))).collect();
        let hosts = self.hosts.iter().map(|host| Party::Host(names::host(host)));
        let controllers = (0..self.setup.controllers).map(Party::Controller);
        let all: Vec<Party> =
            nodes.into_iter().chain(hosts).chain(controllers).chain([Party::Store]).collect();
        *self.random.pick(&all).unwrap_or(&Party::Store)
    }

    /// Whatever was put away is taken back, so that everything can heal.
    fn ending(&mut self) {
        let at = BUSY + 2_000;
        for node in self.nodes.clone() {
            if self.lost.as_ref() != Some(&node) {
                self.ask(at, Ask::Uncordon { node: node.clone() });
                self.ask(at, Ask::Undrain { node });
            }
        }
        if let Some(node) = self.lost.clone() {
            self.ask(at + 40_000, Ask::ForgetNode { node });
        }
        if self.lost.is_some() || self.swapped {
            for volume in self.volumes.clone() {
                self.ask(at + 45_000, Ask::Promote { volume });
            }
            if let Some(node) = self.lost.clone() {
                self.ask(at + 60_000, Ask::ForgetNode { node });
            }
        }
        // Consumers that are gone for good are put out by force.
        for volume in self.volumes.clone() {
            for host in self.hosts.clone() {
                if self.random.chance(100) {
                    let volume = volume.clone();
                    self.ask(at + 1_000, Ask::Unpublish { volume, host, force: true });
                }
            }
        }
    }

    /// What happens in few runs, because it takes a whole run: leaders that never stay, and a pool
    /// that was forgotten and comes back with everything it held.
    fn rarities(&mut self) {
        if self.random.chance(30) {
            let mut at = 15_000;
            while at < BUSY {
                self.fault(at, Fault::StoreEndsLeases);
                at += self.random.between(600, 1_400);
            }
        }
        if self.random.chance(100)
            && let Some(disk) = self.random.pick(&self.setup.disks).cloned()
        {
            let (pool, node) = (disk.label, disk.node);
            let at = self.random.between(25_000, 50_000);
            let span = Some(Millis(40_000));
            self.fault(at, Fault::PullDisk { pool: pool.clone(), span });
            self.ask(at + 5_000, Ask::ForgetPool { pool: pool.clone() });
            self.ask(BUSY + 62_000, Ask::CreatePool { pool, node });
        }
    }
}
