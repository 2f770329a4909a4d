//! Budgets and their ratchet, together: what is measured, judged and tolerated.

use super::{PATH, Ratchet, check};
use crate::{
    repo,
    tidy::{budgets::measure, told},
};

const FILE: &str = "crates/plan/src/lib.rs";

fn found(path: &str, text: &str, ratchet: &str) -> Vec<String> {
    told(&check(&measure(&repo::of(&[(path, text)])), &Ratchet::parse(ratchet).unwrap()))
}

/// A file of this many lines.
fn file(lines: usize) -> String {
    "//! Words.\n".repeat(lines)
}

/// A function of this many lines.
fn function(lines: usize) -> String {
    format!("//! X.\n\nfn long() {{\n{}}}\n", "    f();\n".repeat(lines - 2))
}

#[test]
fn what_fits_passes() {
    assert_eq!(found(FILE, &file(600), ""), [""; 0]);
    assert_eq!(found(FILE, &function(70), ""), [""; 0]);
    assert_eq!(found(FILE, &format!("//! {}\n", "x".repeat(96)), ""), [""; 0]);
}

#[test]
fn a_large_file_is_warned_of_and_then_refused() {
    assert!(found(FILE, &file(601), "")[0].contains("warning: 601 lines"));
    let refused = found(FILE, &file(1001), "");
    assert!(refused[0].starts_with("crates/plan/src/lib.rs:1: 1001 lines"), "{refused:?}");
    assert_eq!(found("crates/plan/src/tests.rs", &file(1001), ""), [""; 0]);
}

#[test]
fn a_long_function_and_a_long_line_are_refused_where_they_are() {
    assert!(found(FILE, &function(71), "")[0].starts_with("crates/plan/src/lib.rs:3: 71 lines"));
    let line = format!("//! X.\n// {}\n", "x".repeat(98));
    assert!(found(FILE, &line, "")[0].starts_with("crates/plan/src/lib.rs:2: 1 lines of the"));
}

#[test]
fn the_ratchet_tolerates_today_but_no_growth() {
    let ratchet = "[function-lines]\n\"crates/plan/src/lib.rs::long\" = 80\n";
    assert_eq!(found(FILE, &function(80), ratchet), [""; 0]);
    assert!(found(FILE, &function(81), ratchet)[0].contains("81 lines"));
}

#[test]
fn an_entry_with_slack_is_told() {
    let ratchet = "[function-lines]\n\"crates/plan/src/lib.rs::long\" = 80\n";
    assert!(found(FILE, &function(79), ratchet)[0].contains("shrank from 80 to 79"));
    assert!(found(FILE, &function(70), ratchet)[0].starts_with(PATH));
    assert!(found("crates/plan/src/other.rs", "//! X.\n", ratchet)[0].contains("remove its entry"));
    assert!(found(FILE, &file(1), "[lines]\n\"a\" = 1\n")[0].contains("`lines` is no budget"));
}

#[test]
fn lowering_shrinks_and_drops_but_never_raises_or_adds() {
    let name = "\"crates/plan/src/lib.rs::long\"";
    let lowered = |from: usize, now: usize| {
        let ratchet = Ratchet::parse(&format!("[function-lines]\n{name} = {from}\n")).unwrap();
        ratchet.lowered(&measure(&repo::of(&[(FILE, &function(now))]))).render()
    };
    assert!(lowered(80, 75).contains(&format!("{name} = 75\n")));
    assert!(lowered(80, 90).contains(&format!("{name} = 80\n")));
    assert!(!lowered(80, 70).contains(name));
    let nothing = Ratchet::default().lowered(&measure(&repo::of(&[(FILE, &function(90))])));
    assert_eq!(nothing, Ratchet::default());
    assert_eq!(Ratchet::parse(&nothing.render()).unwrap(), nothing);
}
