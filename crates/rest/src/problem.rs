//! What went wrong, in the shape of RFC 9457 with a code that stays.

use model::Undecodable;
use plan::{FieldDifference, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Away, Unread};

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// The kind of problem, as a reference: `/problems/` and the code.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// The kind of problem in words.
    pub title: Box<str>,
    pub status: u16,
    /// What went wrong this time.
    pub detail: Box<str>,
    /// Never changes for a kind of problem: programs go by it.
    pub code: Box<str>,
    /// The fields that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Where the leading controller takes changes, when this one does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Box<str>>,
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldError {
    /// The path of the field, such as `spec.size`.
    pub field: String,
    pub detail: String,
}

/// Every code there is, with its status and title.
pub(crate) const CODES: &[(&str, u16, &str)] = &[
    ("bad-request", 400, "The request cannot be read"),
    ("forbidden", 403, "This may not be asked from there"),
    ("no-such-route", 404, "There is no such route"),
    ("not-found", 404, "There is no such resource"),
    ("method-not-allowed", 405, "The route does not take this method"),
    ("attempt-failed", 409, "The attempt failed and was withdrawn"),
    ("conflict", 409, "The resource is not as the request supposes"),
    ("exists", 409, "The resource exists and is not as asked for"),
    ("in-use", 409, "The resource is in use"),
    ("name-taken", 409, "The name is taken"),
    ("unreadable", 409, "A record that this depends on cannot be read"),
    ("no-such-revision", 410, "The store does not keep that revision"),
    ("plan-changed", 412, "The plan is not the one that was shown"),
    ("stale-revision", 412, "The spec changed since it was read"),
    ("too-large", 413, "The request is too large"),
    ("not-json", 415, "The body is not JSON"),
    ("impossible", 422, "It cannot be done now"),
    ("invalid", 422, "A value is not allowed"),
    ("not-leading", 503, "This controller does not lead"),
    ("read-only", 503, "The controller is read-only"),
    ("store-unavailable", 503, "The store is unavailable"),
    ("unavailable", 503, "The controller is not ready"),
];

impl Problem {
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        let known = CODES.iter().find(|(known, ..)| *known == code);
        let (_, status, title) = known.copied().unwrap_or((code, 500, "Something is wrong"));
        Self {
            kind: format!("/problems/{code}").into(),
            title: title.into(),
            status,
            detail: detail.into().into(),
            code: code.into(),
            errors: Vec::new(),
            leader: None,
        }
    }

    pub(crate) fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let (field, detail) = (field.into(), detail.into());
        let mut problem = Self::new("invalid", format!("{field}: {detail}"));
        problem.errors.push(FieldError { field, detail });
        problem
    }

    /// Names each field that is not as it was asked for.
    pub(crate) fn with_differences(mut self, differences: &[FieldDifference]) -> Self {
        let named = differences.iter().map(|found| FieldError {
            field: found.field.clone(),
            detail: format!("it is {}, not {}", found.is, found.asked),
        });
        self.errors.extend(named);
        self
    }

    pub(crate) fn unreadable(found: &Undecodable) -> Self {
        let detail = format!("{found}; look at the record with `holdfast doctor`");
        Self::new("unreadable", detail)
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        Self::new("not-found", format!("there is no {what} {name:?}"))
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::Invalid(invalid) => {
                let limit =
                    format!("{} is not allowed; it must be {}", invalid.value, invalid.limit);
                Self::field(invalid.field, limit)
            }
            Refusal::NotFound { .. } => Self::new("not-found", detail),
            Refusal::NameTaken { .. } => Self::new("name-taken", detail),
            Refusal::StaleSpec { .. } => Self::new("stale-revision", detail),
            Refusal::Conflict { .. } => Self::new("conflict", detail),
            Refusal::Exists { differences, .. } => {
                Self::new("exists", detail).with_differences(&differences)
            }
            Refusal::Impossible { .. } => Self::new("impossible", detail),
            Refusal::Unreadable { .. } => Self::new("unreadable", detail),
            Refusal::InUse { .. } => Self::new("in-use", detail),
            Refusal::ReadOnly { .. } => Self::new("read-only", detail),
            Refusal::NotLeading => Self::new("not-leading", detail),
            Refusal::StoreUnavailable => Self::new("store-unavailable", detail),
        }
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Away(away) => away.into(),
            Unread::NoSuchRevision { reason } => Self::new("no-such-revision", reason),
        }
    }
}

impl From<Away> for Problem {
    fn from(away: Away) -> Self {
        Self::new("unavailable", away.reason)
    }
}
