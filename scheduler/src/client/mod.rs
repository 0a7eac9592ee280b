//! Connections to the API server: one for each kind of traffic, and what its answers mean.
//!
//! Problem: watches, binds, what people look at and the lease share one API server, but none may
//! hold up another; and the stock client sends a request again behind our back.
//!
//! Wanted: watches have connections of their own (their flow control never slows a bind, nor
//! another watch); writes share one HTTP/2 connection, so that hundreds in flight cost no
//! handshakes; low-priority writes have their own, and each request of the lease. A connection that
//! died in silence is given up within seconds: by pings on HTTP/2, by a timeout for each request of
//! the lease. No client here sends anything twice: who asked decides that.
//! `qps` and `burst` of the configuration hold for all writes together, binds and other effects in
//! turns and before what people look at; never for the lease, whose loss would cost more than its
//! one small request, nor for watches.
//!
//! - `transport` builds the clients; `scout` keeps bursts from making a
//!   connection for each request; [`bucket`] holds requests to a rate; [`fence`] stops what has not
//!   left the process when it may not write any more.
//! - [`call`] sends one request and says what became of it: answered, never sent, or unknown.

pub mod bucket;
pub mod call;
pub mod fence;
mod scout;
mod transport;
#[cfg(test)]
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use self::bucket::Bucket;
use self::fence::Fence;
use crate::config::file::ClientConnection;
use crate::watch::WATCH_SECONDS;

/// How long the API server has for one write; its own limit is a minute.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer to a read may take to begin, a long list's too: longer than the server lets
/// any request run.
const READ_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// How long one request for the lease may take: less than what is left of it when it is sent.
const LEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a pod finds the token of its service account; only the connection of a pod to the cluster
/// that it runs in uses it.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Which cluster flags of the command line name; what they leave out the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Path of a kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Its context; absent: the current one.
    pub context: Option<String>,
}

/// One client for each kind of traffic.
#[derive(Clone)]
pub struct Clients {
    /// Lists and watches: HTTP/2 on a connection of its own for each kind that is watched; no
    /// limits, nothing sent twice.
    pub watches: Client,
    /// Binds and other writes that matter: HTTP/2. Nothing waits in it: who sends passes the rate
    /// first, so that it knows when a request has left.
    pub writes: Client,
    /// The rate of all writes but the lease's; `low` and `events` keep to it by themselves.
    pub rate: Bucket,
    /// What people look at: HTTP/2 on a connection of its own.
    pub low: Client,
    /// Events, for which nobody waits: the same.
    pub events: Client,
    /// The lease, and nothing else: a connection for each request.
    pub lease: Client,
    /// What all writes but the lease's pass; open until it is guarded.
    pub fence: Fence,
    /// The namespace that the kubeconfig or the service account names.
    pub namespace: String,
    /// It is that of the pod in which we run.
    pub in_pod: bool,
    /// Where the cluster is.
    pub server: http::Uri,
}

impl Clients {
    /// Connects (lazily) to the cluster of the flags, else of the configuration, else to the one
    /// that the environment shows. Needs a running tokio runtime.
    pub async fn connect(target: &Target, settings: &ClientConnection) -> Result<Clients, String> {
        let mut config = locate(target, settings).await?;
        config.default_retry = false;
        let agent = format!("capstan/{}", env!("CARGO_PKG_VERSION"));
        let agent = agent.parse().expect("a version is plain text");
        config.headers.push((http::header::USER_AGENT, agent));
        Clients::of(&config, &Bucket::configured(settings)).map_err(|error| explain(&error))
    }

    fn of(config: &Config, bucket: &Bucket) -> kube::Result<Clients> {
        let fence = Fence::default();
        let writes = |bucket: &Bucket| transport::writes(config, (bucket, &fence), REQUEST_TIMEOUT);
        Ok(Clients {
            watches: transport::reads(config, READ_TIMEOUT)?,
            writes: writes(&Bucket::unlimited())?,
            rate: bucket.clone(),
            low: writes(&bucket.yielding())?,
            events: writes(&bucket.yielding())?,
            lease: transport::lone(config, LEASE_TIMEOUT)?,
            fence,
            namespace: config.default_namespace.clone(),
            in_pod: config.auth_info.token_file.as_deref() == Some(POD_TOKEN),
            server: config.cluster_url.clone(),
        })
    }
}

/// The configuration of the connection, from the first source that is named.
async fn locate(target: &Target, settings: &ClientConnection) -> Result<Config, String> {
    let options = KubeConfigOptions { context: target.context.clone(), ..Default::default() };
    let configured = settings.kubeconfig.as_ref().filter(|path| !path.is_empty());
    let path = target.kubeconfig.clone().or_else(|| configured.map(PathBuf::from));
    match path {
        Some(path) => {
            let named = |error| format!("kubeconfig {}: {error}", path.display());
            let read = Kubeconfig::read_from(&path).map_err(named)?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(named)
        }
        None if options.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|error| format!("kubeconfig: {error}"))
        }
        None => Config::infer().await.map_err(|error| format!("no cluster is configured: {error}")),
    }
}

/// The HTTP code of an API server's answer; `None`: there was no answer.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The object, or its whole API group, is not there.
pub fn is_gone(error: &kube::Error) -> bool {
    code(error) == Some(404)
}

/// Somebody else was first.
pub fn is_conflict(error: &kube::Error) -> bool {
    code(error) == Some(409)
}

/// The API server has too much to do.
pub fn is_throttled(error: &kube::Error) -> bool {
    code(error) == Some(429)
}

/// What an error says to people; kube's own text repeats the status in Rust's notation, and names
/// its layers.
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        kube::Error::Service(error) => call::chain(&**error),
        other => call::chain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn answered(code: u16) -> kube::Error {
        // No reason: what a proxy or an unknown path answers has none either.
        kube::Error::Api(Status::failure("404 page not found", "").with_code(code).boxed())
    }

    #[test]
    fn the_code_decides_not_the_reason() {
        assert!(is_gone(&answered(404)) && !is_gone(&answered(410)));
        assert!(is_conflict(&answered(409)) && !is_conflict(&answered(404)));
        assert!(is_throttled(&answered(429)) && !is_throttled(&answered(503)));
        assert_eq!(code(&kube::Error::LinesCodecMaxLineLengthExceeded), None);
        assert_eq!(explain(&answered(404)), "404 page not found (404)");
        assert_eq!(explain(&kube::Error::Service("no route".into())), "no route");
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_named() {
        let flag = Target { kubeconfig: Some("/nowhere/flag".into()), context: None };
        let settings =
            ClientConnection { kubeconfig: Some("/nowhere/file".into()), ..Default::default() };
        for (target, path) in [(flag, "/nowhere/flag"), (Target::default(), "/nowhere/file")] {
            let error = Clients::connect(&target, &settings).await.err().expect("no such file");
            assert!(error.starts_with(&format!("kubeconfig {path}: ")), "{error}");
        }
    }

    #[tokio::test]
    async fn a_context_is_chosen_by_name_and_gives_the_namespace() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("config");
        let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [
              {"name": "a", "context": {"cluster": "c", "user": "u"}},
              {"name": "b", "context": {"cluster": "c", "user": "u", "namespace": "batch"}}]}"#;
        std::fs::write(&path, text).expect("written");
        let mut target = Target { kubeconfig: Some(path), context: Some("b".into()) };
        let found = Clients::connect(&target, &ClientConnection::default()).await;
        assert_eq!(found.expect("clients").namespace, "batch");
        target.context = Some("z".into());
        let missing = Clients::connect(&target, &ClientConnection::default()).await;
        assert!(missing.err().expect("no such context").contains('z'));
    }
}
