//! Reading and writing single words.

use core::{fmt, str::FromStr};
use std::collections::BTreeMap;

use model::{Bytes, Millis};

use crate::{LABEL_LENGTH_MAX, Party, names};

/// The words of a line that are not read yet.
#[derive(Debug)]
pub(super) struct Words<'a> {
    rest: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { rest: text.split_whitespace().peekable() }
    }

    pub(super) fn peek(&mut self) -> Option<&'a str> {
        self.rest.peek().copied()
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    /// Takes the next word if it is this one.
    pub(super) fn is_next(&mut self, word: &str) -> bool {
        self.rest.next_if(|next| *next == word).is_some()
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        if self.is_next(word) { Ok(()) } else { Err(format!("{word:?} is missing")) }
    }

    pub(super) fn label(&mut self, what: &str) -> Result<String, String> {
        let word = self.word(what)?;
        if word.len() > LABEL_LENGTH_MAX {
            return Err(format!("{what} has more than {LABEL_LENGTH_MAX} characters"));
        }
        Ok(word.to_owned())
    }

    /// Labels up to the end or up to a word that ends them.
    pub(super) fn labels(&mut self, until: &[&str]) -> Result<Vec<String>, String> {
        let mut labels = Vec::new();
        while self.peek().is_some_and(|word| !until.contains(&word)) {
            labels.push(self.label("a label")?);
        }
        Ok(labels)
    }

    pub(super) fn parsed<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        self.word(what)?.parse().map_err(|_| format!("not {what}"))
    }

    pub(super) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        self.parsed(what)
    }

    pub(super) fn span(&mut self) -> Result<Millis, String> {
        span(self.word("a span of time")?).ok_or_else(|| "not a span like 4s or 500ms".into())
    }

    /// `for 4s`, or nothing.
    pub(super) fn duration(&mut self) -> Result<Option<Millis>, String> {
        if self.is_next("for") { self.span().map(Some) } else { Ok(None) }
    }

    pub(super) fn for_span(&mut self) -> Result<Millis, String> {
        self.expect("for")?;
        self.span()
    }

    pub(super) fn party(&mut self) -> Result<Party, String> {
        let label = self.label("a node, host, controller or the store")?;
        party(&label).ok_or_else(|| "a party begins with n, h or c, or is the store".into())
    }

    pub(super) fn controller(&mut self) -> Result<u8, String> {
        match self.party()? {
            Party::Controller(index) => Ok(index),
            _ => Err("not a controller like c1".into()),
        }
    }

    /// `zone=a rack=r1` up to the end.
    pub(super) fn pairs(&mut self) -> Result<BTreeMap<String, String>, String> {
        let mut pairs = BTreeMap::new();
        while let Some(word) = self.next() {
            let (key, value) = word.split_once('=').ok_or("not a pair like zone=a")?;
            pairs.insert(key.to_owned(), value.to_owned());
        }
        Ok(pairs)
    }

    /// Everything that is left, as it was but for the spaces.
    pub(super) fn remainder(&mut self) -> String {
        let mut words = Vec::new();
        while let Some(word) = self.next() {
            words.push(word);
        }
        words.join(" ")
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!("{word:?} is too much")),
        }
    }
}

/// The first letter of a label tells what it names.
pub(super) fn party(label: &str) -> Option<Party> {
    match label.as_bytes().first()? {
        b's' if label == "store" => Some(Party::Store),
        b'n' => Some(Party::Node(names::node(label))),
        b'h' => Some(Party::Host(names::host(label))),
        b'c' => label[1..].parse().ok().map(Party::Controller),
        _ => None,
    }
}

/// `12.4` seconds.
pub(super) fn time(text: &str) -> Option<Millis> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok().map(|whole| Millis(whole * 1_000 + part))
}

fn span(text: &str) -> Option<Millis> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits.parse().ok()?;
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        _ => return None,
    };
    Some(Millis(count * unit))
}

/// A span as it is read back.
pub(super) struct Span(pub(super) Millis);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            millis if millis > 0 && millis.is_multiple_of(60_000) => {
                write!(f, "{}min", millis / 60_000)
            }
            millis if millis.is_multiple_of(1_000) => write!(f, "{}s", millis / 1_000),
            millis => write!(f, "{millis}ms"),
        }
    }
}

/// ` for 4s`, or nothing.
pub(super) struct For(pub(super) Option<Millis>);

impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(span) => write!(f, " for {}", Span(span)),
            None => Ok(()),
        }
    }
}

/// A size without a space, so that it is one word.
pub(super) struct Size(pub(super) Bytes);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 30) => write!(f, "{}GiB", bytes >> 30),
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{}MiB", bytes >> 20),
            bytes => write!(f, "{bytes}"),
        }
    }
}

pub(super) struct Pairs<'a>(pub(super) &'a BTreeMap<String, String>);

impl fmt::Display for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}
