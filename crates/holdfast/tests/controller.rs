//! The controller and the commands as real processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "shared/process.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod process;

use std::process::{Command, Output};

use process::{Controller, holdfast};

fn start(folder: &std::path::Path) -> Controller {
    let (store, any) = (format!("embedded:{}", folder.display()), "127.0.0.1:0");
    Controller::start(&["--store", &store, "--listen", any, "--rest", any])
}

fn say(controller: &Controller, arguments: &[&str]) -> Output {
    let server = format!("http://{}", controller.rest);
    holdfast(arguments).env("HOLDFAST_SERVER", server).output().unwrap()
}

/// A leader answers within a moment of its start; there is nothing to wait on but its word.
fn until_it_leads(controller: &Controller) {
    for _ in 0..2_000 {
        let said = say(controller, &["get", "cluster", "-o", "json"]);
        if String::from_utf8_lossy(&said.stdout).contains("\"leading\": true") {
            return;
        }
    }
    panic!("it never leads");
}

#[test]
fn a_controller_is_asked_by_the_commands_of_the_same_binary() {
    let folder = tempfile::tempdir().unwrap();
    let controller = start(folder.path());
    until_it_leads(&controller);
    let said = say(&controller, &["get", "nodes"]);
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "no nodes\n");
    let said = say(&controller, &["create", "volume", "v", "--size", "1GiB"]);
    let words = String::from_utf8(said.stderr).unwrap();
    assert!(!said.status.success() && words.contains("no pool can take"), "{words}");
    let said = say(&controller, &["doctor"]);
    let words = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success() && words.contains(" 0 findings"), "{words}");
}

/// OP-4 in part: who stops in good order leaves a store that the next one takes at once.
#[test]
fn a_controller_that_is_told_to_stop_exits_well_and_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut controller = start(folder.path());
    until_it_leads(&controller);
    let id = controller.process.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(controller.process.0.wait().unwrap().success());
    until_it_leads(&start(folder.path()));
}

#[test]
fn a_controller_does_not_listen_to_strangers_unless_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let arguments = ["controller", "--store", &store, "--listen", "0.0.0.0:0"];
    let refused = holdfast(&arguments).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && words.contains("--insecure"), "{words}");
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    assert!(holdfast(&["man", "--dir", name]).output().unwrap().status.success());
    for page in ["holdfast.1", "holdfast-get.1", "holdfast-create-volume.1", "holdfast-drill.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".SH DESCRIPTION"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let said = holdfast(&["completions", shell]).output().unwrap();
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(said.status.success() && text.contains("drill"), "{shell}");
    }
}
