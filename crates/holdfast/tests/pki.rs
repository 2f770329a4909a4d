//! Certificates and config files as an operator uses them, with real processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "shared/process.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod process;

use std::{fs, path::PathBuf};

use process::{Controller, holdfast};

fn said(arguments: &[&str]) -> (bool, String) {
    process::said(&mut holdfast(arguments))
}

fn fine(arguments: &[&str]) -> String {
    let (is_fine, words) = said(arguments);
    assert!(is_fine, "{arguments:?}: {words}");
    words
}

fn refused(arguments: &[&str], why: &str) {
    let (is_fine, words) = said(arguments);
    assert!(!is_fine && words.contains(why), "{arguments:?}: {words}");
}

struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let rig = Self { folder: tempfile::tempdir().unwrap() };
        fine(&["pki", "init", &rig.text("pki")]);
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn issue(&self, role: &str, name: &str, more: &[&str]) -> String {
        let pki = self.text("pki");
        let words = [&["pki", "issue", &pki, role, name], more].concat();
        fine(&words);
        self.text(&format!("pki/{role}-{name}"))
    }

    fn config(&self) -> PathBuf {
        let path = self.path("controller.toml");
        let pki = self.issue("controller", "c1", &["--address", "127.0.0.1"]);
        let store = self.text("store");
        let text = format!(
            "store = \"embedded:{store}\"\nlisten = \"127.0.0.1:0\"\nrest = \"127.0.0.1:0\"\n\
             pki = \"{pki}\"\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// M-17: REST of a running controller, from its config file, asked by everybody.
#[test]
fn a_controller_serves_who_shows_a_clients_certificate_and_nobody_else() {
    let rig = Rig::new();
    let controller = Controller::start(&["--config", rig.config().to_str().unwrap()]);
    let server = format!("https://{}", controller.rest);
    let client = rig.issue("client", "alice", &[]);
    let get = |pki: &str| said(&["get", "nodes", "--server", &server, "--pki", pki]);
    let (is_fine, words) = get(&client);
    assert!(is_fine && words.contains("no nodes"), "{words}");
    let (is_fine, words) = get(&rig.issue("engine", "n1", &[]));
    assert!(!is_fine && words.contains("that of engine n1"), "{words}");
    refused(&["get", "nodes", "--server", &server], "asks for certificates");
    let plain = server.replace("https", "http");
    refused(&["get", "nodes", "--server", &plain], "no controller answers");
    let strange = rig.text("strange");
    fine(&["pki", "init", &strange]);
    fine(&["pki", "issue", &strange, "client", "mallory"]);
    let (is_fine, words) = get(&rig.text("strange/client-mallory"));
    assert!(!is_fine && words.contains("certificate"), "{words}");
}

/// M-17: what strangers could reach is not opened by accident.
#[test]
fn a_listener_beyond_loopback_needs_certificates_or_the_word_for_it() {
    let rig = Rig::new();
    let store = format!("embedded:{}", rig.text("store"));
    let beyond = ["controller", "--store", &store, "--listen", "0.0.0.0:0"];
    refused(&beyond, "--insecure");
    refused(
        &["engine", "--controller", "x:1", "--state", &rig.text("s"), "--listen", "0.0.0.0:0"],
        "--insecure",
    );
    let host = rig.issue("host", "h", &[]);
    refused(&["controller", "--store", &store, "--pki", &host], "the process is a controller");
    let engine = rig.issue("engine", "n1", &[]);
    let state = rig.text("s");
    let posing = ["engine", "--controller", "x:1", "--state", &state, "--pki", &engine];
    refused(&[&posing[..], &["--name", "n2"]].concat(), "is not that of the certificate");
}

/// Peers and hosts would dial themselves.
#[test]
fn an_engine_that_listens_anywhere_is_told_where_others_dial() {
    let rig = Rig::new();
    let state = rig.text("s");
    let anywhere = ["--listen", "0.0.0.0:0", "--insecure"];
    let driven = ["engine", "--controller", "x:1", "--state", &state];
    refused(&[&driven[..], &anywhere[..]].concat(), "--advertise");
    let spec = rig.text("spec.toml");
    fs::write(&spec, "[[device]]\nname = \"ram\"\nmemory = \"1MiB\"\n").unwrap();
    refused(&[&["engine", "--serve", &spec], &anywhere[..]].concat(), "--advertise");
}

#[test]
fn what_is_wrong_with_certificates_and_config_files_is_said() {
    let rig = Rig::new();
    let pki = rig.text("pki");
    assert!(fine(&["pki", "init", &pki]).contains("is there already"));
    refused(&["pki", "issue", &pki, "root", "x"], "is no role");
    refused(&["pki", "issue", &pki, "controller", "c"], "--address");
    refused(&["pki", "issue", &rig.text("none"), "host", "h"], "pki init");
    rig.issue("host", "h", &["--days", "7"]);
    let shown = fine(&["pki", "show", &pki]);
    assert!(shown.contains("Holdfast authority") && shown.contains("host h"), "{shown}");
    let told: serde_json::Value =
        serde_json::from_str(&fine(&["pki", "show", &pki, "--json"])).unwrap();
    assert_eq!(told[1]["role"], "host");
    let config = rig.text("engine.toml");
    std::fs::write(&config, "controler = [\"a:1\"]\n").unwrap();
    refused(&["engine", "--config", &config], "`controler` is no word of this file");
    refused(&["host", "--config", &rig.text("none.toml")], "none.toml");
}
