//! A client that speaks HTTP/2 where the server offers it: one connection for all requests.
//!
//! kube's own stack speaks HTTP/1.1 only, a connection for each request in flight. This one has
//! the same layers (base address, authentication, headers) on a transport of our own; what a
//! server without HTTP/2 offers is spoken too.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Transport;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::bucket::Bucket;
use super::fence::{Fence, Fenced};
use super::scout::Scout;

/// Time to reach the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is silent for so long is asked whether it is still there...
const PING_EVERY: Duration = Duration::from_secs(5);
/// ...and given up when it does not answer.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// A client whose requests wait for the bucket and for a connection, then have `timeout` until
/// their answer begins; what it sends passes the fence.
pub fn client(
    config: &Config,
    (bucket, fence): (&Bucket, &Fence),
    timeout: Duration,
) -> kube::Result<Client> {
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
    let transport: Transport<_, Body> = Transport::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_adaptive_window(true)
        .retry_canceled_requests(false)
        .build(https.enable_all_versions().wrap_connector(tcp));
    let service = ServiceBuilder::new()
        .layer(bucket.clone())
        .layer(Scout::default())
        .layer(TimeoutLayer::new(timeout))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(transport);
    Ok(Client::new(service, config.default_namespace.clone()))
}
