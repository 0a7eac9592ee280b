//! Clients that are not fooled by a dead connection, and speak HTTP/2 where the server offers it.
//!
//! Problem: kube's own stack speaks HTTP/1.1 only, a connection for each request in flight. And a
//! connection may die in silence, when a router or a load balancer forgets it: nothing comes, and
//! nothing says so. On HTTP/1.1 that looks as a watch does in which nothing happens. A pool makes
//! it worse: a request that hung is tried again on the next connection of it, as dead as the first.
//!
//! Wanted: one connection for all writes; one for each watch, so that no long list slows another
//! watch by its flow control; a dead one is known as such after seconds. HTTP/2 has pings for that:
//! a connection that is silent is asked, and what is under way on it fails when no answer comes. A
//! watch is then resumed where it stood, which costs one request.
//! The lease is renewed once in seconds and has no time for two tries that hang: each of its
//! requests makes a connection of its own, and is closed with it.
//!
//! These clients have kube's layers (base address, authentication, headers) on transports of our
//! own. What a server without HTTP/2 offers is spoken too, without pings: there a write has its
//! timeout, and a watch ends with its seconds ([`crate::watch::WATCH_SECONDS`]).
//!
//! Cost: a ping of a few bytes for each silent connection, every few seconds; one handshake (with
//! TLS a resumed one) for each request of the lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Transport;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use parking_lot::Mutex;
use tower::timeout::TimeoutLayer;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::bucket::Bucket;
use super::fence::{Fence, Fenced};
use super::scout::Scout;

/// Time to reach the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How soon a dead connection is known as such.
#[derive(Clone, Copy)]
struct Pings {
    /// A connection that is silent for so long is asked whether it is still there...
    every: Duration,
    /// ...and given up when it does not answer.
    timeout: Duration,
}

/// Binds wait for it, and so do all that are on the same connection.
const OF_WRITES: Pings = Pings { every: Duration::from_secs(5), timeout: Duration::from_secs(5) };
/// There are many, and a server that is busy with long lists should not have to answer all of them
/// at once, nor have all watches begun anew because it was slow.
const OF_WATCHES: Pings =
    Pings { every: Duration::from_secs(10), timeout: Duration::from_secs(10) };

/// A client whose requests wait for the bucket and for a connection, then have `timeout` until
/// their answer begins; what it sends passes the fence.
pub fn writes(
    config: &Config,
    (bucket, fence): (&Bucket, &Fence),
    timeout: Duration,
) -> kube::Result<Client> {
    let transport = transport(OF_WRITES, connector(config, fence, Versions::All)?);
    let service = ServiceBuilder::new()
        .layer(bucket.clone())
        .layer(Scout::default())
        .service(layered(transport, config, timeout)?);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// A client of which the watches of each path have a connection of their own, and so does what is
/// read beside them; all other reads share one. Each has `timeout` until its answer begins.
pub fn reads(config: &Config, timeout: Duration) -> kube::Result<Client> {
    let connector = connector(config, &Fence::default(), Versions::All)?;
    let fresh = Arc::new(move || transport(OF_WATCHES, connector.clone()));
    let apart = Apart { others: fresh(), watches: Arc::default(), fresh };
    let service = layered(apart, config, timeout)?;
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// A client of which each request has a connection of its own, and `timeout` until its answer
/// begins, the handshake included.
pub fn lone(config: &Config, timeout: Duration) -> kube::Result<Client> {
    let transport = Transport::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_max_idle_per_host(0)
        .retry_canceled_requests(false)
        .build(connector(config, &Fence::default(), Versions::One)?);
    let service = layered(transport, config, timeout)?;
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// What all clients have on their transport: the server's address, credentials and headers, and
/// `timeout` until an answer begins.
fn layered<S>(
    transport: S,
    config: &Config,
    timeout: Duration,
) -> kube::Result<impl Layered<Error = BoxError> + Clone + use<S>>
where
    S: Layered<Error: Into<BoxError>> + Clone,
{
    Ok(ServiceBuilder::new()
        .layer(TimeoutLayer::new(timeout))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(Into::<BoxError>::into)
        .service(transport))
}

/// What comes back, whatever made the connection.
type Answer = <Transport<HttpConnector, Body> as Service<Request<Body>>>::Response;

/// What sends requests of these clients.
trait Layered: Service<Request<Body>, Response = Answer, Future: Send> + Send + 'static {}

impl<S> Layered for S where
    S: Service<Request<Body>, Response = Answer, Future: Send> + Send + 'static
{
}

/// Versions of HTTP that a server is offered.
#[derive(Clone, Copy)]
enum Versions {
    /// HTTP/1.1 only: a connection for each request.
    One,
    /// HTTP/2, if the server speaks it.
    All,
}

/// Makes connections, with TLS where the address asks for it; what is sent on them passes the
/// fence.
fn connector(
    config: &Config,
    fence: &Fence,
    versions: Versions,
) -> kube::Result<impl Connect + Clone + Send + Sync + 'static> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let fence = fence.clone();
    // Below TLS, whose buffers are behind us here.
    let tcp = tcp
        .map_response(move |stream| TokioIo::new(Fenced::new(stream.into_inner(), fence.clone())));
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|error| {
            kube::Error::Service(format!("tls-server-name {name}: {error}").into())
        })?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(match versions {
        Versions::One => https.enable_http1().wrap_connector(tcp),
        Versions::All => https.enable_all_versions().wrap_connector(tcp),
    })
}

fn transport<C>(pings: Pings, connector: C) -> Transport<C, Body>
where
    C: Connect + Clone,
{
    Transport::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(pings.every)
        .http2_keep_alive_timeout(pings.timeout)
        .http2_keep_alive_while_idle(true)
        .http2_adaptive_window(true)
        .retry_canceled_requests(false)
        .build(connector)
}

/// Sends each watch on a transport of its own. There is one for each path that is watched, and
/// paths are kinds: they are few, and stay. What else is read of a kind goes there, too: on HTTP/2
/// that is the watch's connection, and its answer shows that this is alive.
struct Apart<C, F> {
    fresh: Arc<F>,
    watches: Arc<Mutex<BTreeMap<String, Transport<C, Body>>>>,
    others: Transport<C, Body>,
}

impl<C: Clone, F> Clone for Apart<C, F> {
    fn clone(&self) -> Self {
        let (fresh, watches) = (self.fresh.clone(), self.watches.clone());
        Apart { fresh, watches, others: self.others.clone() }
    }
}

impl<C, F> Service<Request<Body>> for Apart<C, F>
where
    C: Connect + Clone + Send + Sync + 'static,
    F: Fn() -> Transport<C, Body>,
{
    type Response = <Transport<C, Body> as Service<Request<Body>>>::Response;
    type Error = <Transport<C, Body> as Service<Request<Body>>>::Error;
    type Future = <Transport<C, Body> as Service<Request<Body>>>::Future;

    /// A transport is always ready: it waits for its connection in the call.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let mut watches = self.watches.lock();
        if !watches.contains_key(path) {
            if !is_watch(request.uri()) {
                return self.others.call(request);
            }
            watches.insert(path.to_owned(), (self.fresh)());
        }
        watches.get_mut(path).expect("it is there").call(request)
    }
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"))
}
