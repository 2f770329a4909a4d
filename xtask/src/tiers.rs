//! What `cargo xtask test` runs, as data: a tier is a name, what it shows, what it needs, its work.
//!
//! A new tier is a new entry here and nothing else. Order is the order of running: cheap answers
//! first.

use crate::needs::{Installer, Need};

#[derive(Debug)]
pub(crate) struct Tier {
    pub name: &'static str,
    pub about: &'static str,
    pub needs: &'static [Need],
    /// Variables for its work: how long and how hard.
    pub env: &'static [(&'static str, &'static str)],
    pub work: Work,
}

#[derive(Debug)]
pub(crate) enum Work {
    /// The checks of this program, in this process.
    Tidy,
    /// `cargo <args>`, which counts as one.
    Cargo(&'static [&'static str]),
    /// `cargo test <args>`, of which each test counts.
    CargoTest(&'static [&'static str]),
    /// The simulator with these arguments, which counts as one.
    Sim(&'static [&'static str]),
    /// The same, from the seed that follows from the commit.
    FreshSim(&'static [&'static str]),
}

/// The simulator, optimised, because its worth is the number of seeds per minute.
pub(crate) const SIM: &[&str] =
    &["run", "--quiet", "--release", "--package", "sim", "--bin", "holdfast-sim", "--"];

/// Real engines as processes.
pub(crate) const E2E: &[&str] =
    &["run", "--quiet", "--package", "e2e", "--bin", "holdfast-e2e", "--"];

const ETCD: Need = Need { program: "etcd", installer: Installer::Apt("etcd-server") };

const IP: Need = Need { program: "ip", installer: Installer::Apt("iproute2") };

const FIO: Need = Need { program: "fio", installer: Installer::Apt("fio") };

const QEMU_IMG: Need = Need { program: "qemu-img", installer: Installer::Apt("qemu-utils") };

const NBDFUSE: Need = Need { program: "nbdfuse", installer: Installer::Apt("libnbd-bin") };

const MKFS: Need = Need { program: "mkfs.ext4", installer: Installer::Apt("e2fsprogs") };

const QEMU: Need =
    Need { program: "qemu-system-x86_64", installer: Installer::Apt("qemu-system-x86") };

const BUSYBOX: Need = Need { program: "busybox", installer: Installer::Apt("busybox-static") };

const NVME_CLI: Need = Need { program: "nvme", installer: Installer::Apt("nvme-cli") };

const DEPMOD: Need = Need { program: "depmod", installer: Installer::Apt("kmod") };

const XZ: Need = Need { program: "xz", installer: Installer::Apt("xz-utils") };

const NFT: Need = Need { program: "nft", installer: Installer::Apt("nftables") };

const SCHEMATHESIS: Need = Need {
    program: "st",
    installer: Installer::Pip { package: "schemathesis", version: "4.32.5" },
};

const CARGO_DENY: Need = Need {
    program: "cargo-deny",
    installer: Installer::Cargo { package: "cargo-deny", version: "^0.20" },
};

pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: "fmt",
        about: "the code is formatted",
        needs: &[],
        env: &[],
        work: Work::Cargo(&["fmt", "--all", "--check"]),
    },
    Tier {
        name: "tidy",
        about: "directions, names, budgets, modules, traits, mission ids",
        needs: &[],
        env: &[],
        work: Work::Tidy,
    },
    Tier {
        name: "clippy",
        about: "no warning in any target",
        needs: &[],
        env: &[],
        work: Work::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    },
    Tier {
        name: "unit",
        about: "pure tests and properties of every crate without outside parts",
        needs: &[],
        env: &[],
        work: Work::CargoTest(&["--workspace", "--exclude", "store", "--exclude", "conformance"]),
    },
    Tier {
        name: "store",
        about: "one suite on the memory, embedded and etcd stores",
        needs: &[ETCD],
        // The full number of kills is the next tier.
        env: &[("HOLDFAST_KILLS", "10")],
        work: Work::CargoTest(&["--package", "store", "--package", "conformance"]),
    },
    Tier {
        name: "crash",
        about: "the embedded store, killed in the middle 200 times",
        needs: &[],
        env: &[("HOLDFAST_KILLS", "200")],
        work: Work::CargoTest(&["--package", "store", "--test", "crash"]),
    },
    Tier {
        name: "sim",
        about: "whole clusters of real controllers and storage nodes: 400 seeds",
        needs: &[],
        env: &[],
        // With the next tier about two minutes on two cores.
        work: Work::Sim(&["--seeds", "400"]),
    },
    Tier {
        name: "sim-fresh",
        about: "the same on 600 seeds that follow from the commit",
        needs: &[],
        env: &[],
        // Failures are counted, because the next commit does not meet them again.
        work: Work::FreshSim(&["--seeds", "600", "--keep-going"]),
    },
    Tier {
        name: "sim-cases",
        about: "every script that is kept, at the speed of the simulator",
        needs: &[],
        env: &[],
        work: Work::Sim(&["--cases"]),
    },
    Tier {
        name: "sim-broken",
        about: "planners broken on purpose are each caught by the simulator",
        needs: &[],
        env: &[],
        // A shorter script of what was caught is for people who read it.
        work: Work::Sim(&["--broken", "all", "--no-shrink"]),
    },
    Tier {
        name: "sim-broken-nodes",
        about: "storage nodes with one rule left out are each caught",
        needs: &[],
        env: &[],
        work: Work::Sim(&["--broken-nodes", "all", "--no-shrink"]),
    },
    Tier {
        name: "sim-data-seeds",
        about: "targets, replicas and pools on disks that forget: 60 seeds",
        needs: &[],
        env: &[],
        work: Work::Sim(&["--data", "--seeds", "60"]),
    },
    Tier {
        name: "sim-data-fresh",
        about: "the same on 100 seeds that follow from the commit",
        needs: &[],
        env: &[],
        // About 10 seconds on two cores.
        work: Work::FreshSim(&["--data", "--seeds", "100", "--keep-going"]),
    },
    Tier {
        name: "sim-data",
        about: "small worlds of the data plane, explored in short form",
        needs: &[],
        env: &[],
        work: Work::Sim(&["--exhaustive", "--short"]),
    },
    Tier {
        name: "sim-broken-data",
        about: "data planes with one rule left out are each caught",
        needs: &[],
        env: &[],
        work: Work::Sim(&["--broken-data"]),
    },
    Tier {
        name: "e2e-engine",
        about: "engines as processes, killed and stopped under a verifying workload, in short form",
        needs: &[],
        env: &[],
        work: Work::Cargo(&[
            "run",
            "--quiet",
            "--package",
            "e2e",
            "--bin",
            "holdfast-e2e",
            "--",
            "engine",
            "--rounds",
            "2",
            "--size-mib",
            "128",
        ]),
    },
    Tier {
        name: "e2e-cluster",
        about: "whole clusters on both stores, struck at random under verifying applications",
        needs: &[ETCD, IP],
        env: &[],
        work: Work::Cargo(&[
            "run",
            "--quiet",
            "--package",
            "e2e",
            "--bin",
            "holdfast-e2e",
            "--",
            "cluster",
        ]),
    },
    Tier {
        name: "upgrade",
        about: "two builds that differ mixed in one cluster, upgraded and rolled back one by one",
        needs: &[ETCD],
        env: &[],
        work: Work::CargoTest(&["--package", "e2e", "--test", "upgrade"]),
    },
    Tier {
        name: "machines",
        about: "the guide's three machines, in namespaces, with mutual TLS and etcd; one dies",
        needs: &[ETCD, IP],
        env: &[],
        work: Work::CargoTest(&["--package", "holdfast", "--test", "machines"]),
    },
    Tier {
        name: "tools",
        about: "fio, qemu-img, ext4 and a verifying workload on a real target that is killed",
        needs: &[FIO, QEMU_IMG, NBDFUSE, MKFS],
        env: &[],
        work: Work::CargoTest(&["--package", "holdfast", "--test", "tools"]),
    },
    Tier {
        name: "kernel",
        about: "a Linux kernel in a virtual machine uses our targets, with nvme-cli, fio and ext4",
        needs: &[QEMU, BUSYBOX, NVME_CLI, FIO, MKFS, DEPMOD, XZ, NFT],
        env: &[],
        work: Work::CargoTest(&["--package", "holdfast", "--test", "kernel"]),
    },
    Tier {
        name: "rest-fuzz",
        about: "bad requests at the API of a real cluster, from its document, for a minute",
        needs: &[SCHEMATHESIS],
        env: &[],
        work: Work::CargoTest(&["--package", "holdfast", "--test", "rest_fuzz"]),
    },
    Tier {
        name: "deny",
        about: "licences, duplicate versions and sources of outside crates",
        needs: &[CARGO_DENY],
        env: &[],
        work: Work::Cargo(&["deny", "check", "licenses", "bans", "sources"]),
    },
];
