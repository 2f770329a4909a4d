//! The server: one door for every route of the table.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::{Body as HttpBody, Bytes},
    extract::{ConnectInfo, RawPathParams, Request as HttpRequest, State},
    http::{HeaderMap, Method, Response, StatusCode, Uri, header},
    routing::{MethodFilter, on},
};
use hyper::body::Body as _;
use pki::{Door, Keyring};
use plan::World;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    Backend, Chosen, Client, ClusterShown, Lead, Page, Problem, RecordShown, Seen, browser,
    change::{Preconditions, Wish},
    events, limits, metrics,
    preview::preview,
    query::Query,
    read::{self, Kind, value},
    routes::{Operation, ROUTES, Route, Verb},
    threshold::{Threshold, Visitor},
    wait::{Condition, Waited, subject, wait},
    why,
};

/// Set on what a standby passes on, so that two standbys do not pass it to and fro.
pub(crate) const PASSED_ON: &str = "holdfast-passed-on";

struct App<B> {
    backend: B,
    requests: Arc<Mutex<BTreeMap<(String, u16), u64>>>,
    stop: CancellationToken,
    /// Shown to the leader when a change is passed on.
    keyring: Option<Keyring>,
}

impl<B: Backend> Clone for App<B> {
    fn clone(&self) -> Self {
        let (backend, requests) = (self.backend.clone(), Arc::clone(&self.requests));
        Self { backend, requests, stop: self.stop.clone(), keyring: self.keyring.clone() }
    }
}

type Answer = Result<Response<HttpBody>, Problem>;

/// Serves until it is told to stop; streams end then, and other requests have a moment to finish.
///
/// Where the door asks for certificates, only clients and other controllers are served.
pub async fn serve<B: Backend>(
    door: impl Into<Door>,
    backend: B,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let door = door.into();
    let app = App { backend, requests: Arc::default(), stop: stop.clone(), keyring: None };
    let app = routes(App { keyring: door.keyring.clone(), ..app });
    let app = app.into_make_service_with_connect_info::<Visitor>();
    let stopping = stop.clone();
    let threshold = Threshold::new(door)?;
    let serving = axum::serve(threshold, app)
        .with_graceful_shutdown(async move { stopping.cancelled().await });
    let overtime = async {
        stop.cancelled().await;
        tokio::time::sleep(limits::FINISH_WITHIN).await;
    };
    tokio::select! {
        served = serving => served,
        () = overtime => Ok(()),
    }
}

/// Every route of the table, and problems for everything else.
pub fn router<B: Backend>(backend: B, stop: CancellationToken) -> Router {
    routes(App { backend, requests: Arc::default(), stop, keyring: None })
}

fn routes<B: Backend>(app: App<B>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let method = match route.verb {
            Verb::Get => MethodFilter::GET,
            Verb::Put => MethodFilter::PUT,
            Verb::Post => MethodFilter::POST,
            Verb::Delete => MethodFilter::DELETE,
        };
        let door = move |state: State<App<B>>, params: RawPathParams, request: HttpRequest| {
            enter(route, state, params, request)
        };
        router = router.route(route.path, on(method, door));
    }
    let lost = || async { problem(&Problem::new("no-such-route", "there is no such route")) };
    let refused = || async {
        problem(&Problem::new("method-not-allowed", "the route does not take this method"))
    };
    router.fallback(lost).method_not_allowed_fallback(refused).with_state(app)
}

async fn enter<B: Backend>(
    route: &'static Route,
    State(app): State<App<B>>,
    params: RawPathParams,
    request: HttpRequest,
) -> Response<HttpBody> {
    let params = params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let visitor = request.extensions().get::<ConnectInfo<Visitor>>();
    if let Some(refused) = visitor.and_then(|ConnectInfo(visitor)| visitor.refusal()) {
        return problem(&refused);
    }
    let is_open = visitor.is_some_and(|ConnectInfo(visitor)| visitor.is_unasked);
    let has_body = request.body().size_hint().upper() != Some(0);
    if let Some(refused) = browser::refusal(request.headers(), has_body, is_open) {
        return problem(&refused);
    }
    let (parts, body) = request.into_parts();
    let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
    let read = axum::body::to_bytes(body, limits::BODY_MAX).await;
    let answer = if let Ok(body) = read {
        app.answer(route, Asked { method, uri, headers, params, body }).await
    } else {
        let detail = format!("a body takes at most {} bytes", limits::BODY_MAX);
        Err(Problem::new("too-large", detail))
    };
    let response = answer.unwrap_or_else(|refused| problem(&refused));
    let key = (route.operation.id(), response.status().as_u16());
    let mut requests = app.requests.lock().unwrap_or_else(PoisonError::into_inner);
    *requests.entry(key).or_default() += 1;
    drop(requests);
    response
}

struct Asked {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    params: BTreeMap<String, String>,
    body: Bytes,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn preconditions(&self) -> Preconditions<'_> {
        let (if_match, if_none_match) = (self.header("if-match"), self.header("if-none-match"));
        Preconditions { if_match, if_none_match }
    }

    fn param(&self, name: &str) -> String {
        self.params.get(name).cloned().unwrap_or_default()
    }
}

impl<B: Backend> App<B> {
    async fn answer(&self, route: &Route, asked: Asked) -> Answer {
        let query = Query::read(&asked.uri, route.query)?;
        match route.operation {
            Operation::List(kind) => {
                let page = self.look(move |seen| read::list(seen.world, kind, &query)).await??;
                Ok(json(StatusCode::OK, &page))
            }
            Operation::One(kind) => self.one(kind, asked.param("name"), &query).await,
            Operation::Events => self.events(&asked, &query).await,
            Operation::Cluster => {
                let shown = self.backend.look(cluster).await?;
                Ok(json(StatusCode::OK, &shown))
            }
            Operation::Why => {
                let (kind, name) = (asked.param("kind"), asked.param("name"));
                let why = self.look(move |seen| why::why(seen.world, &kind, &name)).await??;
                Ok(json(StatusCode::OK, &why))
            }
            Operation::Records => self.records(&query).await,
            Operation::OpenApi => Ok(json(StatusCode::OK, &crate::document())),
            Operation::Metrics => {
                let requests = Arc::clone(&self.requests);
                let look = move |seen: &Seen<'_>| {
                    let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
                    metrics::text(seen, &requests)
                };
                Ok(text(StatusCode::OK, self.backend.look(look).await?))
            }
            Operation::Healthz => Ok(text(StatusCode::OK, "ok\n".into())),
            Operation::Readyz => self.ready().await,
            _ => self.change(route.operation, asked, &query).await,
        }
    }

    /// Looks, once there is something to look at.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Seen<'_>) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let looked = self.backend.look(move |seen| seen.is_loaded.then(|| look(seen))).await?;
        looked.ok_or_else(|| Problem::new("unavailable", "the store is not loaded yet"))
    }

    async fn one(&self, kind: Kind, name: String, query: &Query) -> Answer {
        let condition = Condition::read(query)?;
        let deadline = Instant::now() + query.timeout()?;
        let mut status = StatusCode::OK;
        if let Some(condition) = condition {
            status = match wait(&self.backend, kind, &name, condition, deadline).await? {
                Waited::Met => StatusCode::OK,
                Waited::TimedOut => StatusCode::ACCEPTED,
            };
            if condition == Condition::Gone && status == StatusCode::OK {
                return Ok(empty());
            }
        }
        let shown = self.look(move |seen| read::one(seen.world, kind, &name)).await??;
        Ok(json(status, &shown))
    }

    async fn events(&self, asked: &Asked, query: &Query) -> Answer {
        let number = |text: Option<&str>, field: &str| {
            let parsed = text.map(str::parse::<u64>);
            parsed.transpose().map_err(|_| Problem::field(field, "it must be an event's number"))
        };
        let header = number(asked.header("last-event-id"), "Last-Event-ID")?;
        let accepts = asked.header("accept").unwrap_or_default();
        if accepts.contains("text/event-stream") {
            let last = header.or(number(query.after(), "after")?);
            return events::stream(self.backend.clone(), last, self.stop.clone()).await;
        }
        let limit = query.limit()?;
        let found = events::after(&self.backend, number(query.after(), "after")?, limit).await?;
        let last = found.last().map(|event| event.number.to_string());
        let next = last.filter(|_| found.len() >= limit);
        Ok(json(StatusCode::OK, &Page { items: found, next }))
    }

    async fn records(&self, query: &Query) -> Answer {
        let at = query.get("at").map(str::parse::<u64>).transpose();
        let at = at.ok().filter(|at| *at != Some(0));
        let at = at.ok_or_else(|| Problem::field("at", "it must be a revision"))?;
        let after = query.after().map(str::to_owned);
        let limit = query.limit()?;
        let (found, revision, next) =
            self.backend.records(after, limit, at.map(model::Revision)).await?;
        let shown = found.into_iter().map(|record| RecordShown {
            key: record.key,
            modified: record.modified,
            value: serde_json::from_slice(&record.value).unwrap_or(Value::Null),
        });
        let page = Page { items: shown.collect(), next };
        let mut response = json(StatusCode::OK, &page);
        response.headers_mut().insert("holdfast-revision", revision.0.into());
        Ok(response)
    }

    async fn ready(&self) -> Answer {
        let look = |seen: &Seen<'_>| (seen.is_loaded, seen.lead.clone());
        let (is_loaded, lead) = self.backend.look(look).await?;
        match (is_loaded, lead.is_own, lead.is_taken) {
            (true, true, _) => Ok(text(StatusCode::OK, "leading\n".into())),
            (true, false, true) => Ok(text(StatusCode::OK, "standing by\n".into())),
            (true, false, false) => Err(Problem::new("unavailable", "nobody leads")),
            (false, ..) => Err(Problem::new("unavailable", "the store is not loaded yet")),
        }
    }

    async fn change(&self, operation: Operation, asked: Asked, query: &Query) -> Answer {
        let names = ["name", "host"].map(|key| asked.param(key));
        let wish = Wish::read(operation, names, query, asked.preconditions(), &asked.body);
        let changed = match self.backend.change(move |seen: &Seen<'_>| choose(seen, wish)).await {
            Ok((changed, _)) => changed,
            Err(Stop::NotLeading(lead)) => {
                return pass_on(&lead, asked, self.keyring.clone()).await;
            }
            Err(Stop::Refused(problem)) => return Err(*problem),
            Err(Stop::Looked(looked)) => {
                let (world, chosen) = *looked;
                let preview = preview(&world, &chosen.request, chosen.if_spec)?;
                let (wish, _) = &chosen.kept;
                if wish.is_dry {
                    return Ok(json(StatusCode::OK, &preview));
                }
                if wish.if_plan.as_ref() != Some(&preview.plan) {
                    let detail =
                        format!("the plan would be {} now: look at it again", preview.plan);
                    return Err(Problem::new("plan-changed", detail));
                }
                let again = move |_: &Seen<'_>| Ok::<_, Problem>(chosen);
                self.backend.change(again).await?.0
            }
        };
        self.show_changed(changed).await
    }

    /// What a change was about, once what was to be waited for has come.
    async fn show_changed(&self, (wish, known): (Wish, bool)) -> Answer {
        let Some(kind) = wish.kind() else {
            return Ok(json(StatusCode::OK, &self.backend.look(cluster).await?));
        };
        let name = wish.name;
        let mut status = if known { StatusCode::OK } else { StatusCode::CREATED };
        if let Some((condition, deadline)) = wish.wait
            && wait(&self.backend, kind, &name, condition, deadline).await? == Waited::TimedOut
        {
            status = StatusCode::ACCEPTED;
        }
        // What was deleted may be gone by now.
        let shown = self.look(move |seen| read::one(seen.world, kind, &name)).await?;
        Ok(shown.map_or_else(|_| empty(), |shown| json(status, &shown)))
    }
}

/// A change that was chosen, what was asked for, and whether what it names was there before.
type ChosenWish = Chosen<(Wish, bool)>;

/// Why a change was not made in its turn.
enum Stop {
    NotLeading(Lead),
    /// Its plan is looked at first, outside of the turn.
    Looked(Box<(World, ChosenWish)>),
    Refused(Box<Problem>),
}

impl<P: Into<Problem>> From<P> for Stop {
    fn from(problem: P) -> Self {
        Self::Refused(Box::new(problem.into()))
    }
}

/// A change by the state of one moment. Whether this controller leads is asked first: a standby
/// passes on also what it cannot read, for its leader may be of a newer version.
fn choose(seen: &Seen<'_>, wish: Result<Wish, Problem>) -> Result<ChosenWish, Stop> {
    if !seen.lead.is_own {
        return Err(Stop::NotLeading(seen.lead.clone()));
    }
    let wish = wish?;
    if !seen.is_loaded {
        return Err(Problem::new("unavailable", "the store is not loaded yet").into());
    }
    let request = wish.request(seen.world)?;
    let is_there = |kind| subject(seen.world, kind, &wish.name).is_ok();
    let known = wish.kind().is_some_and(is_there);
    let is_looked_at = wish.is_dry || wish.if_plan.is_some();
    let chosen = Chosen { request, if_spec: wish.if_match(), kept: (wish, known) };
    if is_looked_at {
        return Err(Stop::Looked(Box::new((seen.world.clone(), chosen))));
    }
    Ok(chosen)
}

/// Only the leader changes things, so that space is spent in one place.
async fn pass_on(lead: &Lead, asked: Asked, keyring: Option<Keyring>) -> Answer {
    let mut refusal = Problem::new("not-leading", "this controller does not lead");
    refusal.leader = lead.address.clone().map(Into::into);
    let is_passed_on = asked.headers.contains_key(PASSED_ON);
    let Some(address) = lead.address.as_ref().filter(|_| lead.is_taken && !is_passed_on) else {
        return Err(refusal);
    };
    let client = Client::with(address, keyring).map_err(|_| refusal.clone())?;
    let path = asked.uri.path_and_query().map_or("/", |path| path.as_str());
    let (method, body) = (asked.method.clone(), asked.body.clone());
    match client.pass_on(method, path, asked.preconditions(), body).await {
        Ok(response) => Ok(response.map(HttpBody::from)),
        Err(error) => {
            warn!(%error, address, "passing a change on failed");
            Err(refusal)
        }
    }
}

fn cluster(seen: &Seen<'_>) -> ClusterShown {
    let world = seen.world;
    ClusterShown {
        era: world.cluster.as_ref().map(|cluster| cluster.era),
        revision: world.revision,
        leading: seen.lead.is_own,
        leader: seen.lead.address.clone().filter(|_| seen.lead.is_taken),
        read_only: world.too_new().or(world.read_only().map(|why| read::readable(world, why))),
        quarantined: world.quarantined.values().map(ToString::to_string).collect(),
        nodes: world.nodes.len(),
        pools: world.pools.len(),
        volumes: world.volumes.len(),
        hosts: world.hosts.len(),
    }
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::from(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn json<T: Serialize>(status: StatusCode, shape: &T) -> Response<HttpBody> {
    response(status, "application/json", value(shape).to_string())
}

fn text(status: StatusCode, text: String) -> Response<HttpBody> {
    response(status, "text/plain; charset=utf-8", text)
}

fn empty() -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn problem(problem: &Problem) -> Response<HttpBody> {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    response(status, "application/problem+json", value(problem).to_string())
}
