//! The journal as a stream that a client can take up where it left off.

use std::{collections::VecDeque, convert::Infallible};

use axum::{
    body::{Body, Bytes},
    http::{Response, header},
};
use futures_util::stream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{Away, Backend, EventShown, Problem, limits};

/// The events after a number; `None` for those that are still to come.
pub(crate) async fn after<B: Backend>(
    backend: &B,
    number: Option<u64>,
    limit: usize,
) -> Result<Vec<EventShown>, Away> {
    let look = move |seen: &crate::Seen<'_>| {
        let from = number.map_or(0, |number| number.saturating_add(1));
        let events = seen.events.range(from..).take(limit);
        events.map(|(number, event)| EventShown { number: *number, event: event.clone() }).collect()
    };
    backend.look(look).await
}

struct Tail<B> {
    backend: B,
    turns: tokio::sync::watch::Receiver<u64>,
    last: Option<u64>,
    ready: VecDeque<EventShown>,
    stop: CancellationToken,
}

/// Server-sent events: first what came after `last`, then everything as it happens. Without a
/// `last` it begins now.
pub(crate) async fn stream<B: Backend>(
    backend: B,
    last: Option<u64>,
    stop: CancellationToken,
) -> Result<Response<Body>, Problem> {
    let turns = backend.turns();
    let newest = backend.look(|seen| seen.events.last_key_value().map(|(n, _)| *n)).await?;
    let last = last.or(newest);
    let tail = Tail { backend, turns, last, ready: VecDeque::new(), stop };
    let chunks = stream::unfold(tail, |mut tail| async move {
        let chunk = tail.next().await?;
        Some((Ok::<_, Infallible>(chunk), tail))
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .header(header::CACHE_CONTROL, "no-cache")
        .body(Body::from_stream(chunks))
        .map_err(|error| Problem::new("unavailable", error.to_string()))
}

impl<B: Backend> Tail<B> {
    /// The next piece of text; `None` when the server stops.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last = Some(event.number);
                let data = serde_json::to_string(&event).unwrap_or_default();
                let number = event.number;
                return Some(format!("id: {number}\nevent: event\ndata: {data}\n\n").into());
            }
            self.turns.mark_unchanged();
            let found = after(&self.backend, self.last, limits::EVENTS_AT_ONCE).await.ok()?;
            self.ready.extend(found);
            if !self.ready.is_empty() {
                continue;
            }
            let turned = tokio::select! {
                () = self.stop.cancelled() => return None,
                turned = timeout(limits::EVENTS_ALIVE, self.turns.changed()) => turned,
            };
            match turned {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some(Bytes::from_static(b": alive\n\n")),
            }
        }
    }
}
