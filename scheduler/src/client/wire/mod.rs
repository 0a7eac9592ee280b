//! What the clients do on the wire: against a server with TLS that offers HTTP/2, as API servers
//! do. Its key (`key.pem`) is for nothing else; nobody trusts its certificate.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::Api;
use kube::api::ListParams;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::call::{Fate, call};
use super::*;

/// How long each answer takes, so that requests of a burst are under way together.
const ANSWER: Duration = Duration::from_millis(100);
/// Requests of a burst: as many as one connection of an API server carries.
const BURST: usize = 100;

/// One connection that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Connection {
    /// What both sides agreed to speak.
    protocol: String,
    /// Requests on it.
    requests: usize,
}

/// Connections in the order in which they were made, and the paths of all requests, as they came.
#[derive(Clone, Default)]
struct Traffic {
    connections: Arc<Mutex<Vec<Connection>>>,
    paths: Arc<Mutex<Vec<String>>>,
}

/// A server that answers everything with one code.
struct Server {
    port: u16,
    traffic: Traffic,
}

impl Server {
    async fn start(code: u16) -> Server {
        let certificate = CertificateDer::from_pem_slice(include_bytes!("certificate.pem"));
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("key.pem")).expect("a key");
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_no_client_auth();
        let certificates = vec![certificate.expect("a certificate")];
        let mut config = config.with_single_cert(certificates, key).expect("they belong together");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let traffic = Traffic::default();
        let kept = traffic.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), stream, kept.clone(), code));
            }
        });
        Server { port, traffic }
    }

    /// The clients as `capstan run` makes them.
    async fn clients(&self) -> Clients {
        self.clients_with(&ClientConnection::default()).await
    }

    /// The same under other settings.
    async fn clients_with(&self, settings: &ClientConnection) -> Clients {
        let folder = tempfile::tempdir().expect("folder");
        let kubeconfig = folder.path().join("config");
        let text = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{ "name": "c", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "insecure-skip-tls-verify": true } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
            "contexts": [{ "name": "a", "context": { "cluster": "c", "user": "u" } }] });
        std::fs::write(&kubeconfig, text.to_string()).expect("written");
        let target = Target { kubeconfig: Some(kubeconfig), context: None };
        Clients::connect(&target, settings).await.expect("clients")
    }

    fn connections(&self) -> Vec<Connection> {
        self.traffic.connections.lock().clone()
    }

    fn requests(&self) -> usize {
        self.connections().iter().map(|one| one.requests).sum()
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: tokio::net::TcpStream,
    Traffic { connections, paths }: Traffic,
    code: u16,
) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let protocol = stream.get_ref().1.alpn_protocol().unwrap_or_default();
    let protocol = String::from_utf8_lossy(protocol).into_owned();
    let at = {
        let mut all = connections.lock();
        all.push(Connection { protocol: protocol.clone(), requests: 0 });
        all.len() - 1
    };
    let service = service_fn(move |request: Request<Incoming>| {
        connections.lock()[at].requests += 1;
        paths.lock().push(request.uri().path().to_owned());
        async move {
            tokio::time::sleep(ANSWER).await;
            let status = json!({ "kind": "Status", "message": "so it is", "code": code });
            let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
            *answer.status_mut() = StatusCode::from_u16(code).expect("a code");
            Ok::<_, Infallible>(answer)
        }
    });
    let stream = TokioIo::new(stream);
    // How a connection ends is for the client to notice.
    if protocol == "h2" {
        drop(http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await);
    } else {
        drop(http1::Builder::new().serve_connection(stream, service).await);
    }
}

fn write() -> Request<Vec<u8>> {
    write_to("/api/v1/namespaces/a/pods/b/binding")
}

fn write_to(path: &str) -> Request<Vec<u8>> {
    Request::post(path).body(vec![b'x']).expect("request")
}

/// This many writes at once; all are answered.
async fn burst(client: &Client, writes: usize) {
    let mut calls = JoinSet::new();
    for _ in 0..writes {
        let client = client.clone();
        calls.spawn(async move { call(&client, write()).await });
    }
    for fate in calls.join_all().await {
        assert!(matches!(&fate, Fate::Answered(reply) if reply.code == 201), "{fate:?}");
    }
}

#[tokio::test]
async fn writes_are_http2_and_a_burst_of_them_is_one_connection() {
    let server = Server::start(201).await;
    let clients = server.clients().await;
    for (at, client) in [&clients.writes, &clients.low, &clients.events].into_iter().enumerate() {
        let begun = std::time::Instant::now();
        burst(client, BURST).await;
        let took = begun.elapsed();
        let connections = server.connections();
        let used: Vec<&Connection> = connections.iter().filter(|one| one.requests > 0).collect();
        let one = Connection { protocol: "h2".to_owned(), requests: BURST };
        assert_eq!(used, vec![&one; at + 1], "{connections:?}");
        assert_eq!(connections.len(), at + 1, "no handshake in vain");
        assert!(took < ANSWER * 20, "they were under way together: {took:?}");
    }
}

/// One request of each client, in a word; all are refused.
async fn ask_once(clients: &Clients) {
    for client in [&clients.writes, &clients.low, &clients.events] {
        assert!(matches!(call(client, write()).await, Fate::Answered(_)));
    }
    for client in [&clients.watches, &clients.lease] {
        let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
        api.list(&ListParams::default()).await.expect_err("it is refused");
    }
}

#[tokio::test]
async fn no_client_sends_anything_twice() {
    // The codes for which kube's stock client asks again by itself.
    for code in [429, 503, 504] {
        let server = Server::start(code).await;
        let clients = server.clients().await;
        ask_once(&clients).await;
        assert_eq!(server.requests(), 5, "{code}: one for each client");
    }
}

#[tokio::test]
async fn who_leads_no_more_writes_nothing_on_connections_that_are_open() {
    let server = Server::start(201).await;
    let clients = server.clients().await;
    let leads = Arc::new(AtomicBool::new(true));
    let asked = leads.clone();
    clients.fence.guard(move || asked.load(Ordering::Relaxed));
    let writers = [&clients.writes, &clients.low, &clients.events];
    for client in writers {
        burst(client, 2).await;
    }
    leads.store(false, Ordering::Relaxed);
    for client in writers {
        // The second one finds no connection and makes none.
        for _ in 0..2 {
            let fate = call(client, write()).await;
            assert!(!matches!(fate, Fate::Answered(_)), "{fate:?}");
        }
    }
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(clients.lease.clone());
    api.list(&ListParams::default()).await.expect_err("it is answered, and is no list");
    assert_eq!(server.requests(), 7, "two of each, and the lease's");
}

#[tokio::test]
async fn what_people_look_at_lets_binds_go_first() {
    let server = Server::start(201).await;
    let qps = crate::quantity::Quantity::parse("20");
    let settings = ClientConnection { qps, burst: Some(1), ..Default::default() };
    let clients = server.clients_with(&settings).await;
    let mut calls = JoinSet::new();
    let mut ask = |client: &Client, rate: &Bucket, path: &'static str| {
        let (client, rate) = (client.clone(), rate.clone());
        calls.spawn(async move {
            rate.pass().await;
            call(&client, write_to(path)).await
        });
    };
    let of_its_own = Bucket::unlimited();
    // They would take the first second if they let nobody go first.
    for _ in 0..10 {
        ask(&clients.low, &of_its_own, "/status");
        ask(&clients.events, &of_its_own, "/event");
    }
    // All of them wait for their turn by now.
    tokio::time::sleep(ANSWER).await;
    for _ in 0..10 {
        ask(&clients.writes, &clients.rate, "/bind");
    }
    for fate in calls.join_all().await {
        assert!(matches!(&fate, Fate::Answered(reply) if reply.code == 201), "{fate:?}");
    }
    let paths = server.traffic.paths.lock();
    assert_eq!(paths.len(), 30);
    let last = |path: &str| paths.iter().rposition(|it| it == path).expect("asked");
    let bound = last("/bind");
    assert!(bound < last("/status") && bound < last("/event"), "{paths:?}");
}

#[tokio::test]
async fn watches_and_the_lease_have_connections_of_their_own() {
    let server = Server::start(429).await;
    let clients = server.clients().await;
    ask_once(&clients).await;
    let spoken =
        || -> Vec<String> { server.connections().into_iter().map(|one| one.protocol).collect() };
    assert_eq!(spoken()[..4], ["h2"; 4], "writes of three kinds, and reads");
    assert_eq!(spoken().len(), 5, "{:?}", spoken());
    assert_ne!(spoken()[4], "h2", "a connection of the lease carries one request");

    // Each watch on its own, again and again on the same one.
    for _ in 0..2 {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(clients.watches.clone());
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::all(clients.watches.clone());
        let params = kube::api::WatchParams::default();
        drop(nodes.watch(&params, "1").await);
        drop(pods.watch(&params, "1").await);
    }
    let watches = &server.connections()[5..];
    let twice = Connection { protocol: "h2".to_owned(), requests: 2 };
    assert_eq!(watches, [twice.clone(), twice]);
}

/// Whoever waits for its answer knows that the watch is not on a connection that died in silence.
#[tokio::test]
async fn what_is_read_beside_a_watch_goes_on_its_connection() {
    let server = Server::start(429).await;
    let clients = server.clients().await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(clients.watches.clone());
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::all(clients.watches.clone());
    let params = kube::api::WatchParams::default();
    drop(nodes.watch(&params, "1").await);
    drop(pods.watch(&params, "1").await);
    for _ in 0..2 {
        let one = ListParams::default().limit(1);
        nodes.list_metadata(&one).await.expect_err("it is refused");
    }
    let requests: Vec<usize> = server.connections().iter().map(|one| one.requests).collect();
    assert_eq!(requests, [3, 1]);
}

#[tokio::test]
async fn each_request_of_the_lease_has_a_fresh_connection() {
    let server = Server::start(429).await;
    let clients = server.clients().await;
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(clients.lease.clone());
    let ask = || async { api.list(&ListParams::default()).await.expect_err("it is refused") };
    for _ in 0..3 {
        // Where one is kept, two at once leave two behind, and both may be dead.
        tokio::join!(ask(), ask());
    }
    let connections = server.connections();
    assert!(connections.iter().all(|one| one.requests == 1), "{connections:?}");
    assert_eq!(connections.len(), 6, "{connections:?}");
}
