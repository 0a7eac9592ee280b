//! HTTP for people and probes: metrics, health, explanations.
//!
//! | path | answers |
//! |---|---|
//! | `/metrics` | Prometheus text |
//! | `/healthz` | 200 while the engine's thread is alive: it beats at least every [`BEAT_MAX`] |
//! | `/readyz` | 200 once everything was listed; says whether we lead, and what is not read yet |
//! | `/debug/explain/pod/NAMESPACE/NAME` | why a pod may or may not run, node by node |
//! | `/debug/explain/workload/NAMESPACE/NAME` | why a workload waits or runs |
//! | `/debug/pending/clusterqueue/NAME` | what waits in a ClusterQueue, in order, as JSON |
//! | `/debug/pending/localqueue/NAMESPACE/NAME` | the same of a LocalQueue |
//!
//! Explanations are text, with `?output=json` what `capstan explain --output json` prints; the
//! header `capstan-answer` is `no` where that would exit with 1, else `yes`. Lists have the fields
//! of Kueue's visibility API, and its `?limit=` (1000) and `?offset=` (0). All are asked of the
//! engine's thread ([`Ask`]), which answers between two steps; nothing here touches the engine. A
//! replica that stands by answers, too, as a leader would, so that any behind a Service may be
//! asked. While too many wait for answers, others are told to ask again (429). The server writes
//! nothing anywhere.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use capstan_core::explain::view::{Place, PodExplanation, WorkloadExplanation};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::render::state::Negative;
use crate::render::{Explained, json, text};

/// The engine's thread is stuck when it has not beaten for this long: a step of the largest
/// cluster takes well under a second.
pub const BEAT_MAX: Duration = Duration::from_secs(30);

/// How long an explanation may take: it tries every remedy on the engine.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Workloads of a queue in one answer, unless another number is asked for.
const LISTED: usize = 1_000;

/// Header of an explanation: `yes`, or [`NO`].
const ANSWER: HeaderName = HeaderName::from_static("capstan-answer");
/// A workload waits, or a pod fits on no node.
const NO: &str = "no";

/// Whether a server's explanation is a no.
pub fn is_no(headers: &HeaderMap) -> bool {
    headers.get(ANSWER).is_some_and(|answer| answer == NO)
}

/// An answer of the engine's thread, or that nothing of that name is ours: with whose it is, if it
/// is somebody's.
pub type Answer<T> = oneshot::Receiver<Result<Explained<T>, Option<String>>>;

/// What waits in a queue; `None`: there is no such queue.
pub type Line = oneshot::Receiver<Option<Vec<Place>>>;

/// Asks the engine's thread; it never waits, and drops the sender when it cannot answer. `None`:
/// too many questions wait already.
pub trait Ask: Send + Sync {
    /// Why a pod may or may not run.
    fn explain_pod(&self, namespace: &str, name: &str) -> Option<Answer<PodExplanation>>;

    /// Why a workload waits or runs.
    fn explain_workload(&self, namespace: &str, name: &str) -> Option<Answer<WorkloadExplanation>>;

    /// What waits in a ClusterQueue, or in a LocalQueue of a namespace, in order.
    fn line(&self, namespace: Option<&str>, name: &str) -> Option<Line>;
}

/// How the process is, as its threads say.
#[derive(Debug)]
pub struct Health {
    begun: Instant,
    /// Milliseconds from the begin to the last beat.
    beat: AtomicU64,
    synced: AtomicBool,
    /// Kinds that were not listed yet.
    unread: Mutex<Vec<String>>,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            begun: Instant::now(),
            beat: AtomicU64::new(0),
            synced: AtomicBool::new(false),
            unread: Mutex::default(),
        }
    }
}

impl Health {
    /// The engine's thread is alive; it says so in every turn of its loop, idle ones included.
    pub fn beat(&self) {
        let gone = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat.store(gone, Ordering::Relaxed);
    }

    /// Every kind was listed once.
    pub fn synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }

    /// Of these kinds, and no others, nobody knows yet what there is.
    pub fn unread(&self, kinds: Vec<String>) {
        *self.unread.lock() = kinds;
    }

    /// Kinds of which nobody knows yet what there is.
    pub fn what_is_unread(&self) -> Vec<String> {
        self.unread.lock().clone()
    }

    fn silence(&self) -> Duration {
        let beat = Duration::from_millis(self.beat.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(beat)
    }
}

/// What the server shows.
#[derive(Clone)]
pub struct Served {
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Health.
    pub health: Arc<Health>,
    /// Whether this replica leads.
    pub leadership: Leadership,
    /// The engine's thread.
    pub ask: Arc<dyn Ask>,
}

/// All paths.
pub fn router(served: Served) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/debug/explain/pod/{namespace}/{name}", get(explain_pod))
        .route("/debug/explain/workload/{namespace}/{name}", get(explain_workload))
        .route("/debug/pending/clusterqueue/{name}", get(cluster_queue))
        .route("/debug/pending/localqueue/{namespace}/{name}", get(local_queue))
        .with_state(served)
}

/// Serves until `end` is ready; requests that are being answered are finished.
pub async fn serve(
    listener: TcpListener,
    served: Served,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(served)).with_graceful_shutdown(end).await
}

async fn metrics(State(served): State<Served>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, served.metrics.encode()).into_response()
}

async fn healthz(State(served): State<Served>) -> (StatusCode, String) {
    let silence = served.health.silence();
    match silence <= BEAT_MAX {
        true => (StatusCode::OK, "ok\n".to_owned()),
        false => {
            let says = format!("the engine has not answered for {}s\n", silence.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, says)
        }
    }
}

async fn readyz(State(served): State<Served>) -> (StatusCode, String) {
    let (status, mut says) =
        match (served.health.synced.load(Ordering::Relaxed), served.leadership.holds()) {
            (false, _) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready: the cluster is being read\n".to_owned(),
            ),
            (true, true) => (StatusCode::OK, "ok: leading\n".to_owned()),
            (true, false) => (StatusCode::OK, "ok: standing by\n".to_owned()),
        };
    let unread = served.health.what_is_unread();
    if !unread.is_empty() {
        says += &format!("not read yet: {}\n", unread.join(", "));
    }
    (status, says)
}

type Target = Path<(String, String)>;
type Options = Query<BTreeMap<String, String>>;

async fn explain_pod(
    State(served): State<Served>,
    Path((namespace, name)): Target,
    Query(options): Options,
) -> Response {
    let answer = served.ask.explain_pod(&namespace, &name);
    explain(answer, &options, ("pod", &namespace, &name), [text::pod, json::pod]).await
}

async fn explain_workload(
    State(served): State<Served>,
    Path((namespace, name)): Target,
    Query(options): Options,
) -> Response {
    let answer = served.ask.explain_workload(&namespace, &name);
    let printers = [text::workload, json::workload];
    explain(answer, &options, ("workload", &namespace, &name), printers).await
}

async fn cluster_queue(
    State(served): State<Served>,
    Path(name): Path<String>,
    Query(options): Options,
) -> Response {
    list(served.ask.line(None, &name), &options, &format!("ClusterQueue {name}")).await
}

async fn local_queue(
    State(served): State<Served>,
    Path((namespace, name)): Target,
    Query(options): Options,
) -> Response {
    let queue = format!("LocalQueue {namespace}/{name}");
    list(served.ask.line(Some(&namespace), &name), &options, &queue).await
}

/// Waits for what waits in a queue and prints some of it.
async fn list(line: Option<Line>, options: &BTreeMap<String, String>, queue: &str) -> Response {
    let number = |name: &str, default: usize| match options.get(name) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("{name}: {text:?} is no number\n")),
    };
    let (offset, limit) = match (number("offset", 0), number("limit", LISTED)) {
        (Ok(offset), Ok(limit)) => (offset, limit),
        (Err(says), _) | (_, Err(says)) => return (StatusCode::BAD_REQUEST, says).into_response(),
    };
    let Some(line) = line else { return too_many() };
    match tokio::time::timeout(ANSWER_MAX, line).await {
        Ok(Ok(Some(line))) => {
            let some = line.get(offset..).unwrap_or_default();
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, json::line(&some[..limit.min(some.len())])).into_response()
        }
        Ok(Ok(None)) => (StatusCode::NOT_FOUND, format!("no {queue}\n")).into_response(),
        Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "the engine has ended\n").into_response(),
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "the engine is busy\n").into_response(),
    }
}

/// What is said to who asks while too many wait for answers.
fn too_many() -> Response {
    let later = [(header::RETRY_AFTER, "1")];
    (StatusCode::TOO_MANY_REQUESTS, later, "too many wait for answers; ask again\n").into_response()
}

/// Waits for an explanation and prints it.
async fn explain<T: Negative>(
    answer: Option<Answer<T>>,
    options: &BTreeMap<String, String>,
    (kind, namespace, name): (&str, &str, &str),
    [text, json]: [fn(&Explained<T>) -> String; 2],
) -> Response {
    let as_json = match options.get("output").map(String::as_str) {
        None | Some("text") => false,
        Some("json") => true,
        Some(_) => return (StatusCode::BAD_REQUEST, "output is text or json\n").into_response(),
    };
    let Some(answer) = answer else { return too_many() };
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(Ok(Ok(explained))) => {
            let no = [(ANSWER, if explained.explanation.negative() { NO } else { "yes" })];
            if as_json {
                let kind = [(header::CONTENT_TYPE, "application/json")];
                return (no, kind, json(&explained)).into_response();
            }
            let plain = anstream::adapter::strip_str(&text(&explained)).to_string();
            (no, plain).into_response()
        }
        Ok(Ok(Err(whose))) => {
            let none = || format!("no {kind} {name} in namespace {namespace}");
            (StatusCode::NOT_FOUND, whose.unwrap_or_else(none) + "\n").into_response()
        }
        Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "the engine has ended\n").into_response(),
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "the engine is busy\n").into_response(),
    }
}

#[cfg(test)]
mod tests;
