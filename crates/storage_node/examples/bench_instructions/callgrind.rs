//! Runs this program under callgrind and reads what it wrote.

use std::{collections::BTreeMap, env, fs, process::Command};

/// Instructions by the function that ran them and the file that its code is from.
#[derive(Default)]
pub(crate) struct Profile {
    counts: BTreeMap<(String, String), u64>,
}

/// Memory is copied and zeroed by vectors: callgrind takes an instruction that repeats itself for
/// as many as the bytes that it moves.
const NO_REPETITION: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000";

/// `None` if there is no valgrind.
pub(crate) fn profile(case: &str) -> Option<Profile> {
    let path = env::temp_dir().join(format!("bench_instructions.{}", std::process::id()));
    let status = Command::new("valgrind")
        .env("GLIBC_TUNABLES", NO_REPETITION)
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .args(["--toggle-collect=*measured_operations*"])
        .args(["--toggle-collect=*uncounted_work*"])
        .arg(format!("--callgrind-out-file={}", path.display()))
        .arg(env::current_exe().ok()?)
        .args(["--run", case])
        .status()
        .ok()?;
    assert!(status.success(), "{case}: {status}");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    Some(Profile::read(&text))
}

/// Names are written once, and by their number from then on.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn resolve(&mut self, written: &str) -> String {
        let Some((number, name)) = written.split_once(')') else { return written.into() };
        if !name.is_empty() {
            self.0.insert(number.into(), name.trim().into());
        }
        self.0.get(number).cloned().unwrap_or_default()
    }
}

impl Profile {
    fn read(text: &str) -> Self {
        let mut profile = Self::default();
        let (mut files, mut functions) = (Names::default(), Names::default());
        let (mut file, mut function) = (String::new(), String::new());
        let mut is_call = false;
        for line in text.lines() {
            match line.split_once('=') {
                Some(("fl" | "fi" | "fe", name)) => file = files.resolve(name),
                Some(("fn", name)) => function = functions.resolve(name),
                Some(("cfi" | "cfl", name)) => drop(files.resolve(name)),
                Some(("cfn", name)) => drop(functions.resolve(name)),
                Some(("calls", _)) => is_call = true,
                // What a call cost is counted where it was spent.
                None if std::mem::take(&mut is_call) => {}
                None if line.starts_with(is_position) => {
                    let count = line.split(' ').nth(1).and_then(|count| count.parse().ok());
                    let key = (function.clone(), file.clone());
                    *profile.counts.entry(key).or_default() += count.unwrap_or(0u64);
                }
                _ => {}
            }
        }
        profile
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The most costly first. Code that was inlined counts for the crate that it is from, and the
    /// standard library's for whom it was inlined into.
    pub(crate) fn by_crate(&self) -> Vec<(String, u64)> {
        sorted(
            self.counts.iter().map(|((function, file), count)| (crate_of(file, function), *count)),
        )
    }

    /// With everything that was inlined.
    pub(crate) fn by_function(&self) -> Vec<(String, u64)> {
        sorted(self.counts.iter().map(|((function, _), count)| (function.clone(), *count)))
    }
}

/// Where a line of costs says where they are from.
fn is_position(first: char) -> bool {
    first.is_ascii_digit() || "+-*".contains(first)
}

fn sorted(counts: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut sums = BTreeMap::<String, u64>::new();
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sums
}

fn crate_of(file: &str, function: &str) -> String {
    if let Some((_, inside)) = file.split_once("crates/") {
        let name = inside.split('/').next().unwrap_or(inside);
        return if inside.contains("examples/") { "bench".into() } else { name.into() };
    }
    let owner = function.trim_start_matches('<').split("::").next().unwrap_or_default();
    let name = match file {
        file if file.contains("library/") => match owner {
            "bench_instructions" => "bench",
            "block" | "mirror" | "nvme" | "pool" | "storage_node" => owner,
            _ => "std",
        },
        file if file.contains("malloc") => "allocator",
        _ if function.starts_with("__mem") => "memory copies",
        _ => "others",
    };
    name.into()
}
