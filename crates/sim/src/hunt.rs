//! Running broken brains until each is caught.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Instant,
};

use sim::{
    BrokenBrain, BrokenNode, Caught, Options, Sound, broken_brains, broken_nodes, catch,
    catch_node, forgetful_brains, real_brain, shrink,
};

use crate::SHRINK_FOR;

/// Enough for whoever can be caught at all.
const SEEDS: u64 = 300;
/// A broken brain was not caught.
const MISSED: u8 = 13;

pub(crate) struct Hunt {
    pub(crate) start: u64,
    pub(crate) seeds: Option<u64>,
    pub(crate) is_shrinking: bool,
}

/// `all` are those with a name of their own, `omissions` those that never take one kind of step.
pub(crate) fn named(name: &str) -> Vec<BrokenBrain> {
    match name {
        "all" => broken_brains(),
        "omissions" => forgetful_brains(),
        _ => {
            let everybody = broken_brains().into_iter().chain(forgetful_brains());
            everybody.filter(|brain| brain.name == name).collect()
        }
    }
}

impl Hunt {
    pub(crate) fn run(&self, name: &str) -> ExitCode {
        let brains = named(name);
        if brains.is_empty() {
            eprintln!("there is no broken brain {name}; there are:");
            for brain in broken_brains() {
                eprintln!("  {brain:?}");
            }
            return ExitCode::from(2);
        }
        // A brain that panics is caught as well, and need not say so each time.
        std::panic::set_hook(Box::new(|_| {}));
        let (sound, next, missed) = (Sound::default(), AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            while let Some(brain) = brains.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !self.catch(brain, &sound) {
                    missed.store(true, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(work);
            }
        });
        if missed.into_inner() { ExitCode::from(MISSED) } else { ExitCode::SUCCESS }
    }

    fn catch(&self, brain: &BrokenBrain, sound: &Sound) -> bool {
        let seeds = self.start..self.start + self.seeds.unwrap_or(SEEDS);
        let Some(caught) = catch(brain, seeds, sound) else {
            println!("NOT CAUGHT {}: {}", brain.name, brain.flaw);
            return false;
        };
        let Caught { seed, failure, .. } = &caught;
        let mut words = format!(
            "caught {}: seed {seed}, {:?}, {}, {}\n",
            brain.name, failure.kind, failure.promise, failure.words
        );
        if self.is_shrinking {
            words.push_str(&shrunk(brain, &caught));
        }
        print!("{words}");
        true
    }
}

impl Hunt {
    /// The same for storage nodes that lack a rule; `all`, or the name of one.
    pub(crate) fn run_nodes(&self, name: &str) -> ExitCode {
        let nodes = broken_nodes().into_iter();
        let nodes: Vec<_> = nodes.filter(|node| name == "all" || node.name == name).collect();
        if nodes.is_empty() {
            eprintln!("there is no broken node {name}; there are:");
            for node in broken_nodes() {
                eprintln!("  {}: {}", node.name, node.flaw);
            }
            return ExitCode::from(2);
        }
        std::panic::set_hook(Box::new(|_| {}));
        let (sound, missed) = (Sound::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for node in &nodes {
                let (sound, missed) = (&sound, &missed);
                scope.spawn(move || {
                    if !self.catch_node(*node, sound) {
                        missed.store(true, Ordering::Relaxed);
                    }
                });
            }
        });
        if missed.into_inner() { ExitCode::from(MISSED) } else { ExitCode::SUCCESS }
    }

    fn catch_node(&self, node: BrokenNode, sound: &Sound) -> bool {
        let seeds = self.start..self.start + self.seeds.unwrap_or(SEEDS);
        let Some(Caught { seed, failure, script }) = catch_node(node, seeds, sound) else {
            println!("NOT CAUGHT {}: {}", node.name, node.flaw);
            return false;
        };
        println!(
            "caught {}: seed {seed}, {:?}, {}, {}",
            node.name, failure.kind, failure.promise, failure.words
        );
        if self.is_shrinking {
            let began = Instant::now();
            let is_over = || began.elapsed() > SHRINK_FOR;
            let shorter = shrink(seed, &script, &failure, node.options(), &real_brain, &is_over);
            println!("{}", shorter.script);
        }
        true
    }
}

fn shrunk(brain: &BrokenBrain, caught: &Caught) -> String {
    let began = Instant::now();
    let Caught { seed, script, failure } = caught;
    let is_over = || began.elapsed() > SHRINK_FOR;
    let shorter = shrink(*seed, script, failure, Options::default(), &|| brain.brain(), &is_over);
    let lines: Vec<String> =
        shorter.script.to_string().lines().map(|line| format!("  {line}\n")).collect();
    lines.concat()
}
