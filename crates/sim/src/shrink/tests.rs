//! Failures that are planted, so that it is known what must be left.

use super::*;
use crate::generate;

fn long() -> Script {
    let script = generate(7);
    assert!(script.lines.len() > 80, "{}", script.lines.len());
    script
}

/// Whether the script still says each of these words in some line.
fn says(script: &Script, wanted: &[&str]) -> bool {
    let text: Vec<String> = script.lines.iter().map(ToString::to_string).collect();
    wanted.iter().all(|words| text.iter().any(|line| line.contains(words)))
}

#[test]
fn only_the_lines_that_a_failure_needs_are_left() {
    let wanted = ["create pool p31", "create volume v5", "publish"];
    let (script, tries) = minimise(long(), TRIES_MAX, &mut |script| says(script, &wanted));
    assert_eq!(script.lines.len(), 3, "{script}");
    assert!(says(&script, &wanted), "{script}");
    assert!(tries < 200, "{tries}");
}

#[test]
fn machines_that_nobody_speaks_of_go() {
    let wanted = ["create pool p31 on n3"];
    let (script, _) = minimise(long(), TRIES_MAX, &mut |script| says(script, &wanted));
    let setup = &script.setup;
    assert_eq!(setup.nodes.keys().collect::<Vec<_>>(), ["n3"]);
    assert_eq!(setup.disks.len(), 1);
    assert!(setup.hosts.is_empty());
    assert_eq!(setup.controllers, 1);
    assert_eq!(Script::parse(&script.to_string()), Ok(script), "it can be kept as a case");
}

#[test]
fn the_tries_are_bounded_and_what_is_left_still_fails() {
    let wanted = ["create volume v5"];
    let mut asked = 0;
    let (script, tries) = minimise(long(), 5, &mut |script| {
        asked += 1;
        says(script, &wanted)
    });
    assert_eq!((tries, asked), (5, 5));
    assert!(says(&script, &wanted));
}

#[test]
fn a_failure_that_needs_every_line_stays_as_it_is() {
    let script = Script::parse("controllers 1\nnode n1\n1.0 kill n1\n2.0 kill c0").unwrap();
    let (left, _) = minimise(script.clone(), TRIES_MAX, &mut |left| left == &script);
    assert_eq!(left, script);
}

#[test]
fn lines_after_a_broken_promise_are_not_looked_at() {
    let failure = Failure {
        kind: Kind::BrokenPromise,
        promise: "any".into(),
        words: String::new(),
        at: Millis::seconds(30),
        event: 0,
    };
    let short = until_broken(&long(), &failure);
    assert!(short.lines.iter().all(|line| line.at <= failure.at));
    let stuck = Failure { kind: Kind::NoProgress, ..failure };
    assert_eq!(until_broken(&long(), &stuck), long());
}
