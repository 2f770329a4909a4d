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
