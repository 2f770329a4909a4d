//! The rules, area by area: a scene in a few words, and the steps and waits that follow from it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod cluster;
mod config;
mod create;
mod delete;
mod node;
mod placement;
mod pool;
mod promote;
mod properties;
mod publish;
mod recover;
mod replicate;
mod request;
mod resize;
mod share;
mod snapshot;
mod status;
mod surplus;
mod switchover;
mod target;
mod unreadable;
mod world;

use fixtures::{Lab, Scene};
use model::Subject;

/// The plans of these subjects are what is expected, step or wait by line.
#[track_caller]
fn check_plans(text: &str, is_meant: fn(&Subject) -> bool, expect: &[&str]) {
    let scene = Scene::new(text);
    let subjects: Vec<Subject> = scene.world.subjects().filter(is_meant).collect();
    let lines: Vec<String> = subjects.into_iter().flat_map(|subject| scene.plan(subject)).collect();
    check_lines(&lines, expect, text);
}

#[track_caller]
fn check_volumes(text: &str, expect: &[&str]) {
    check_plans(text, |subject| matches!(subject, Subject::Volume(_)), expect);
}

#[track_caller]
fn check_lines(lines: &[String], expect: &[&str], text: &str) {
    assert!(lines == expect, "{text}\n  gave {lines:#?}\n  not  {expect:#?}");
}

/// The steps taken until the laboratory rests, and what is waited for then.
#[track_caller]
fn settled(text: &str) -> Lab {
    let mut lab = Lab::new(text);
    if let Err(why) = lab.settle() {
        panic!("{text}\n  {why}\n  after {:#?}", lab.log);
    }
    lab
}
