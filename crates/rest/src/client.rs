//! The one typed client, for the command line and for every process that is a client too.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use pki::Keyring;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::{EventShown, Page, Preview, Problem, change::Preconditions, limits, server::PASSED_ON};

/// Talks to one controller; clones share the connection.
#[derive(Clone)]
pub struct Client {
    /// Host and port.
    authority: String,
    /// For `https`.
    keyring: Option<Keyring>,
    idle: Arc<Mutex<Option<SendRequest<Full<Bytes>>>>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("authority", &self.authority).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{url:?} is no address of a controller: it must be http[s]://HOST:PORT")]
    Url { url: String },
    #[error("{url} asks for certificates: name them with --pki FOLDER, or --ca, --cert and --key")]
    NoCertificate { url: String },
    #[error("no controller answers at {authority}: {reason}")]
    Unreachable { authority: String, reason: String },
    #[error(transparent)]
    Refused(#[from] Box<Problem>),
    #[error("the answer cannot be read: {reason}")]
    Garbled { reason: String },
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    Done(T),
    /// It was there already, as asked for.
    Unchanged(T),
    /// It is durable; what was waited for is not so yet.
    Accepted(T),
    Gone,
    /// Nothing was done.
    Preview(Box<Preview>),
}

impl Client {
    /// `http://HOST:PORT`.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Self::with(url, None)
    }

    /// `https://HOST:PORT` with certificates, or `http://HOST:PORT`, which uses none.
    pub fn with(url: &str, keyring: Option<Keyring>) -> Result<Self, ClientError> {
        let refused = || ClientError::Url { url: url.to_owned() };
        let no_certificate = || ClientError::NoCertificate { url: url.to_owned() };
        let (authority, keyring) = match url.split_once("://").ok_or_else(refused)? {
            ("http", rest) => (rest, None),
            ("https", rest) => (rest, Some(keyring.ok_or_else(no_certificate)?)),
            _ => return Err(refused()),
        };
        let authority = authority.trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':').ok_or_else(refused)?;
        if host.is_empty() || port.parse::<u16>().is_err() || authority.contains('/') {
            return Err(refused());
        }
        Ok(Self { authority: authority.to_owned(), keyring, idle: Arc::default() })
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        decode(&self.send(Method::GET, path, Preconditions::default(), Bytes::new()).await?.1)
    }

    /// Every page of a list.
    pub async fn all<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let sign = if path.contains('?') { '&' } else { '?' };
            let limit = limits::PAGE_MAX;
            let mut full = format!("{path}{sign}limit={limit}");
            if let Some(after) = &after {
                full.push_str("&after=");
                full.push_str(&encode(after));
            }
            let page: Page<T> = self.get(&full).await?;
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(items);
            }
        }
    }

    /// A change, with or without a body.
    pub async fn change<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        if_match: Option<u64>,
        body: Option<&B>,
    ) -> Result<Answer<T>, ClientError> {
        let bytes = body.map(serde_json::to_vec).transpose();
        let bytes = bytes.map_err(|error| ClientError::Garbled { reason: error.to_string() })?;
        let if_match = if_match.map(|revision| format!("\"{revision}\""));
        let body = Bytes::from(bytes.unwrap_or_default());
        let must = Preconditions { if_match: if_match.as_deref(), if_none_match: None };
        let (status, bytes) = self.send(method, path, must, body).await?;
        match status {
            StatusCode::NO_CONTENT => Ok(Answer::Gone),
            StatusCode::ACCEPTED => Ok(Answer::Accepted(decode(&bytes)?)),
            _ if path.contains("dry-run=true") => Ok(Answer::Preview(decode(&bytes)?)),
            _ => Ok(Answer::Done(decode(&bytes)?)),
        }
    }

    /// Makes what the path names. What is there stays as it is: if it is the same, it is told
    /// apart from what was made; if it is another, the request is refused.
    pub async fn create<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<Answer<T>, ClientError> {
        let bytes = serde_json::to_vec(body);
        let bytes = bytes.map_err(|error| ClientError::Garbled { reason: error.to_string() })?;
        let must = Preconditions { if_match: None, if_none_match: Some("*") };
        let (status, bytes) = self.send(Method::PUT, path, must, Bytes::from(bytes)).await?;
        match status {
            StatusCode::ACCEPTED => Ok(Answer::Accepted(decode(&bytes)?)),
            _ if path.contains("dry-run=true") => Ok(Answer::Preview(decode(&bytes)?)),
            StatusCode::CREATED => Ok(Answer::Done(decode(&bytes)?)),
            _ => Ok(Answer::Unchanged(decode(&bytes)?)),
        }
    }

    /// Text, such as metrics.
    pub async fn text(&self, path: &str) -> Result<String, ClientError> {
        let (_, bytes) =
            self.send(Method::GET, path, Preconditions::default(), Bytes::new()).await?;
        String::from_utf8(bytes.into())
            .map_err(|error| ClientError::Garbled { reason: error.to_string() })
    }

    /// Events as they happen, from those after `last` on.
    pub async fn events(&self, last: Option<u64>) -> Result<EventStream, ClientError> {
        let mut request =
            self.request(Method::GET, "/v1/events").header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        // The connection is the stream's from now on.
        let (_, response) = self.exchange(request, Bytes::new()).await?;
        let (status, body) = (response.status(), response.into_body());
        if !status.is_success() {
            let bytes = body.collect().await.map(http_body_util::Collected::to_bytes);
            return Err(refusal(status, &bytes.unwrap_or_default()));
        }
        Ok(EventStream { body, bytes: Vec::new() })
    }

    /// Sends what another controller was asked, as it came, and answers as it is answered.
    pub(crate) async fn pass_on(
        &self,
        method: Method,
        path: &str,
        must: Preconditions<'_>,
        body: Bytes,
    ) -> Result<Response<Bytes>, ClientError> {
        let request = self.request(method, path).header(PASSED_ON, "1");
        let request = with_headers(request, must, &body);
        let (connection, response) = self.exchange(request, body).await?;
        let (parts, body) = response.into_parts();
        let bytes = self.collect(connection, body).await?;
        let mut response = Response::new(bytes);
        *response.status_mut() = parts.status;
        if let Some(kind) = parts.headers.get(header::CONTENT_TYPE) {
            response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
        }
        Ok(response)
    }

    fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        Request::builder().method(method).uri(path).header(header::HOST, &self.authority)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        must: Preconditions<'_>,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let request = with_headers(self.request(method, path), must, &body);
        let (connection, response) = self.exchange(request, body).await?;
        let status = response.status();
        let bytes = self.collect(connection, response.into_body()).await?;
        if status.is_success() { Ok((status, bytes)) } else { Err(refusal(status, &bytes)) }
    }

    /// Reads the whole answer; only then may another request use the connection.
    async fn collect(
        &self,
        connection: SendRequest<Full<Bytes>>,
        body: Incoming,
    ) -> Result<Bytes, ClientError> {
        let collected = body.collect().await.map_err(|error| self.unreachable(&error))?;
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok(collected.to_bytes())
    }

    async fn exchange(
        &self,
        request: axum::http::request::Builder,
        body: Bytes,
    ) -> Result<(SendRequest<Full<Bytes>>, Response<Incoming>), ClientError> {
        let request = request.body(Full::new(body));
        let request =
            request.map_err(|error| ClientError::Garbled { reason: error.to_string() })?;
        let mut connection = self.connection().await?;
        let answering = timeout(limits::ANSWER_WITHIN, connection.send_request(request)).await;
        let late = "no answer in time";
        let response =
            answering.map_err(|_| self.unreachable(late))?.map_err(|error| self.broken(&error))?;
        Ok((connection, response))
    }

    /// The idle connection, if it still stands, or a new one.
    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut idle) = idle
            && idle.ready().await.is_ok()
        {
            return Ok(idle);
        }
        let dialling = pki::dial(&self.authority, self.keyring.as_ref());
        let connecting = timeout(limits::CONNECT_WITHIN, dialling).await;
        let stream = connecting
            .map_err(|_| self.unreachable("it takes no connection"))?
            .map_err(|error| self.unreachable(&error))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| self.unreachable(&error))?;
        // It ends with its connection, which ends when its sender is dropped.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    fn unreachable(&self, reason: &(impl fmt::Display + ?Sized)) -> ClientError {
        ClientError::Unreachable { authority: self.authority.clone(), reason: reason.to_string() }
    }

    /// An exchange that broke off. Why a certificate is refused lies at the bottom of the chain.
    fn broken(&self, error: &hyper::Error) -> ClientError {
        let cause = std::error::Error::source(error);
        match cause {
            Some(cause) => self.unreachable(&format!("{error}: {cause}")),
            None if self.keyring.is_none() => {
                self.unreachable(&format!("{error} (if it asks for certificates, say https)"))
            }
            None => self.unreachable(error),
        }
    }
}

fn with_headers(
    mut request: axum::http::request::Builder,
    must: Preconditions<'_>,
    body: &Bytes,
) -> axum::http::request::Builder {
    if let Some(if_match) = must.if_match {
        request = request.header(header::IF_MATCH, if_match);
    }
    if let Some(if_none_match) = must.if_none_match {
        request = request.header(header::IF_NONE_MATCH, if_none_match);
    }
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    request
}

fn refusal(status: StatusCode, bytes: &Bytes) -> ClientError {
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) => ClientError::Refused(Box::new(problem)),
        Err(_) => ClientError::Garbled { reason: format!("status {status}") },
    }
}

fn decode<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ClientError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ClientError::Garbled { reason: error.to_string() })
}

/// A text as a part of a path or query.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Events as they come.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    bytes: Vec<u8>,
}

impl EventStream {
    /// The next event; `None` when the server ends the stream.
    pub async fn next(&mut self) -> Result<Option<EventShown>, ClientError> {
        let garbled =
            |reason: &dyn fmt::Display| ClientError::Garbled { reason: reason.to_string() };
        loop {
            while let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
                let message: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let mut lines = message.split(|byte| *byte == b'\n');
                let data = lines.find_map(|line| line.strip_prefix(b"data: "));
                let event = data.map(serde_json::from_slice).transpose();
                if let Some(event) = event.map_err(|error| garbled(&error))? {
                    return Ok(Some(event));
                }
            }
            if self.bytes.len() > limits::EVENT_BYTES_MAX {
                return Err(garbled(&"an event without an end"));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| garbled(&error))?;
            if let Ok(data) = frame.into_data() {
                self.bytes.extend_from_slice(&data);
            }
        }
    }
}
