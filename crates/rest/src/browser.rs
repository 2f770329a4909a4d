//! Requests that a page of somebody else can make a browser send: they are refused.
//!
//! A controller on loopback asks nobody for a certificate, and a browser on the same machine
//! reaches it. What gives a page away is the name it was reached by (`Host`, after its own name was
//! made to point here), where it is from (`Origin`), and what a form can send (no JSON).

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

use crate::Problem;

/// Why a request is refused; `is_open` if whoever reaches the listener on this machine is served.
pub(crate) fn refusal(headers: &HeaderMap, has_body: bool, is_open: bool) -> Option<Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    if is_open && !is_local(host) {
        let detail = format!("this controller is not {host:?}: ask it by its address");
        return Some(Problem::new("forbidden", detail));
    }
    if let Some(origin) = text(header::ORIGIN)
        && origin.split_once("://").is_none_or(|(_, from)| from != host)
    {
        let detail = format!("a page of {origin:?} may not ask here");
        return Some(Problem::new("forbidden", detail));
    }
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    (has_body && !kind.eq_ignore_ascii_case("application/json")).then(|| {
        let detail = "a body is JSON: send it with Content-Type: application/json";
        Problem::new("not-json", detail)
    })
}

/// An address, or the name that every machine has for itself: nobody else can make it point here.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}
