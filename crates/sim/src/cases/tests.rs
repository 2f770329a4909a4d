//! The list is complete, and what it lists is readable and comes out the same each time.

use super::*;

#[test]
fn every_file_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let listed: Vec<String> = cases().iter().map(|case| format!("{}.txt", case.name)).collect();
    assert_eq!(files, listed, "the list is in the order of names");
}

#[test]
fn the_same_seed_and_script_give_the_same_run() {
    let trace = |seed| {
        let options = Options { trace: true, ..Options::default() };
        let report = run(seed, &cases()[0].script().unwrap(), real_brain(), options);
        (report.events, report.trace)
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn every_case_says_first_what_it_shows() {
    for case in cases() {
        let script = case.script().unwrap();
        let note = script.notes.first().map(String::as_str).unwrap_or_default();
        let (ids, words) = note.split_once(':').unwrap_or_default();
        assert!(ids.contains('-') && words.ends_with('.'), "{}: {note:?}", case.name);
        let ends = !script.expects.is_empty();
        assert!(ends, "{} expects nothing when all has settled", case.name);
    }
}

/// ST-5, M-34 in part: the mutant `AskUnchecked`, a controller that answers an engine whatever it
/// asks, is noticed where an engine lies.
#[test]
fn a_controller_that_asks_nobody_who_they_are_is_caught_by_a_lie() {
    let name = "an_engine_lies_about_membership";
    let case = cases().iter().find(|case| case.name == name).unwrap();
    assert_eq!(case.run(None, Options::default()).unwrap().failure, None);
    let mutant = Options { asks_unchecked: true, ..Options::default() };
    let failure = case.run(None, mutant).unwrap().failure.expect("it is not caught");
    assert_eq!(failure.promise, "membership_owner", "{failure:?}");
}
