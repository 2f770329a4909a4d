//! What stands behind the question mark. A word that is not known is refused: a misspelt `dry-run`
//! must not be the real thing.

use std::{collections::BTreeMap, time::Duration};

use axum::{extract::Query as Extract, http::Uri};
use model::Labels;

use crate::{Problem, limits};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let pairs = Extract::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Problem::new("bad-request", error.body_text()))?;
        let mut query = BTreeMap::new();
        for (key, value) in pairs.0 {
            if !known.contains(&key.as_str()) {
                let detail = format!("there is no such parameter; there are: {}", known.join(", "));
                return Err(Problem::field(key, detail));
            }
            if query.insert(key.clone(), value).is_some() {
                return Err(Problem::field(key, "it is given twice"));
            }
        }
        Ok(Self(query))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub(crate) fn after(&self) -> Option<&str> {
        self.get("after")
    }

    pub(crate) fn is_set(&self, key: &str) -> Result<bool, Problem> {
        match self.get(key) {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(_) => Err(Problem::field(key, "it must be true or false")),
        }
    }

    /// The fingerprint of a preview.
    pub(crate) fn plan(&self) -> Result<Option<&str>, Problem> {
        let Some(plan) = self.get("if-plan") else { return Ok(None) };
        let shaped = plan.len() == 16 && plan.bytes().all(|byte| byte.is_ascii_hexdigit());
        let detail = "it must be the `plan` of a dry run, 16 hexadecimal digits";
        if shaped { Ok(Some(plan)) } else { Err(Problem::field("if-plan", detail)) }
    }

    /// `a=1,b=2`.
    pub(crate) fn labels(&self) -> Result<Labels, Problem> {
        let Some(text) = self.get("labels") else { return Ok(Labels::new()) };
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        };
        let pairs: Option<Labels> = text.split(',').map(pair).collect();
        pairs.ok_or_else(|| Problem::field("labels", "it must be key=value[,key=value]"))
    }

    pub(crate) fn timeout(&self) -> Result<Duration, Problem> {
        let Some(text) = self.get("timeout") else { return Ok(limits::WAIT_DEFAULT) };
        let longest = limits::WAIT_MAX;
        let span = span(text).filter(|span| *span <= longest);
        span.ok_or_else(|| Problem::field("timeout", "it must be like 500ms, 30s or 10m, to 10m"))
    }
}

/// `500ms`, `30s`, `10m`, or plain seconds.
fn span(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(count)),
        "" | "s" => Some(Duration::from_secs(count)),
        "m" => count.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Query, Problem> {
        Query::read(&text.parse().unwrap(), &["dry-run", "timeout", "labels"])
    }

    #[test]
    fn a_misspelt_parameter_is_refused_and_not_ignored() {
        assert!(read("/x?dry-run=true").unwrap().is_set("dry-run").unwrap());
        assert_eq!(read("/x?dryrun=true").unwrap_err().errors[0].field, "dryrun");
        assert!(read("/x?dry-run=true&dry-run=false").is_err());
        assert!(read("/x?dry-run=yes").unwrap().is_set("dry-run").is_err());
        assert!(read("/x?%ff=1").is_err());
    }

    #[test]
    fn spans_read_as_people_write_them() {
        assert_eq!(span("30s"), Some(Duration::from_secs(30)));
        assert_eq!(span("1500ms"), Some(Duration::from_millis(1500)));
        assert_eq!(span("10m"), Some(Duration::from_mins(10)));
        for text in ["", "s", "1h", "-1s", "99999999999999999999s", "é"] {
            assert_eq!(span(text), None, "{text}");
        }
        assert!(read("/x?timeout=11m").unwrap().timeout().is_err());
    }
}
