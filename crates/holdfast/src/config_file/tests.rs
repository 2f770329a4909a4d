//! A file says what flags say, flags win, and what is wrong is named.

use clap::{Arg, ArgAction, value_parser};

use super::*;

fn command() -> Command {
    let process = Command::new("engine").args([
        Arg::new("config").long("config").value_parser(value_parser!(PathBuf)),
        Arg::new("listen").long("listen").value_parser(value_parser!(std::net::SocketAddr)),
        Arg::new("disks").long("disk").action(ArgAction::Append),
        Arg::new("patience").long("patience").value_parser(value_parser!(u64)).default_value("7"),
        Arg::new("digests").long("digests").action(ArgAction::SetTrue),
    ]);
    Command::new("holdfast").subcommand(process)
}

fn read(file: &str, flags: &[&str]) -> Result<ArgMatches> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.toml");
    fs::write(&path, file).unwrap();
    let words = ["holdfast", "engine", "--config", path.to_str().unwrap()];
    let words = words.iter().chain(flags).map(OsString::from).collect();
    let all = parse(&command(), words)?;
    Ok(all.subcommand_matches("engine").unwrap().clone())
}

fn refusal(file: &str) -> String {
    format!("{:#}", read(file, &[]).unwrap_err())
}

const FILE: &str = r#"
    listen = "10.0.0.1:4420"
    disk = ["/dev/a", "/dev/b"]
    patience = 9
    digests = true
"#;

#[test]
fn a_file_says_what_flags_say() {
    let all = read(FILE, &[]).unwrap();
    let disks: Vec<&String> = all.get_many("disks").unwrap().collect();
    assert_eq!(disks, ["/dev/a", "/dev/b"]);
    assert_eq!(all.get_one("patience"), Some(&9_u64));
    assert!(all.get_flag("digests"));
}

#[test]
fn a_flag_wins_over_the_file_and_a_default_does_not() {
    let all = read(FILE, &["--disk", "/dev/c", "--patience", "1"]).unwrap();
    let disks: Vec<&String> = all.get_many("disks").unwrap().collect();
    assert_eq!(disks, ["/dev/c"]);
    assert_eq!(all.get_one("patience"), Some(&1_u64));
}

#[test]
fn what_is_wrong_in_a_file_is_named() {
    let unknown = refusal("lisen = 'x'");
    assert!(unknown.contains("`lisen` is no word") && unknown.contains("listen"), "{unknown}");
    assert!(refusal("config = 'x'").contains("`config` is no word"));
    assert!(refusal("listen = 'here'").contains("--listen"));
    assert!(refusal("digests = 'yes'").contains("`digests` must be true or false"));
    assert!(refusal("listen = 1.5").contains("`listen` must be a text"));
    assert!(refusal("listen = ").contains("engine.toml"));
    assert!(read("digests = false", &[]).is_ok_and(|all| !all.get_flag("digests")));
}
