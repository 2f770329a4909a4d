//! Texts that may stand nowhere, assembled here from halves for the same reason as in the table.

use super::check;
use crate::{repo, tidy::told};

fn found(text: &str) -> Vec<String> {
    told(&check(&repo::of(&[("docs/page.md", text)])))
}

#[test]
fn ordinary_text_passes() {
    let todo = concat!("TO", "DO");
    let clean = format!(
        "net/work/x a/root/b target/work/\n{todo}(#12): later\nMAS{todo}N {todo}_LIST\nthe rest\n"
    );
    assert_eq!(found(&clean), [""; 0]);
}

#[test]
fn each_forbidden_text_is_told_with_its_line() {
    for planted in [
        concat!("see /wo", "rk/x"),
        concat!("`/ro", "ot/x`"),
        concat!("// TO", "DO: later"),
        concat!("// TO", "DO(#) later"),
        concat!("// FIX", "ME"),
        concat!("#[ig", "nore = \"slow\"]"),
        concat!("db", "g!(x)"),
        concat!("https://index.cra", "tes.io/x"),
    ] {
        let found = found(&format!("first\n{planted}\n"));
        assert_eq!(found.len(), 1, "{planted}");
        assert!(found[0].starts_with("docs/page.md:2: "), "{found:?}");
    }
}
