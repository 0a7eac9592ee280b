//! The server over loopback, asked with plain HTTP/1.1.

use capstan_core::explain::view::Position;
use capstan_core::model::input::{Input, NodeFacts};
use capstan_core::{Engine, time::Time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::*;
use crate::render::fixture;

/// Explanations of one pod and one workload; of anything else nothing, or no answer at all.
struct Known;

fn answered<T>(answer: Option<T>) -> Answer<T> {
    let (sender, receiver) = oneshot::channel();
    let explained = |explanation| Explained {
        explanation,
        now: Time(0),
        files: Vec::new(),
        warnings: Vec::new(),
    };
    assert!(sender.send(answer.map(explained).ok_or(None)).is_ok());
    receiver
}

impl Ask for Known {
    fn explain_pod(&self, namespace: &str, name: &str) -> Option<Answer<PodExplanation>> {
        Some(match name {
            "many" => return None,
            "mute" => oneshot::channel().1,
            "p" => answered(Some(PodExplanation {
                namespace: namespace.into(),
                name: name.into(),
                workload: None,
                waits: None,
                beside: false,
                nodes: Vec::new(),
            })),
            "theirs" => {
                let (sender, receiver) = oneshot::channel();
                assert!(sender.send(Err(Some("Pod theirs is another's".to_owned()))).is_ok());
                receiver
            }
            _ => answered(None),
        })
    }

    fn explain_workload(&self, namespace: &str, name: &str) -> Option<Answer<WorkloadExplanation>> {
        let mut workload = fixture::workload(namespace, name);
        if name == "runs" {
            workload.state = capstan_core::plan::State::Running;
        }
        Some(answered(["w", "runs"].contains(&name).then(|| WorkloadExplanation {
            workload,
            ahead: Some(0),
            position: None,
            forecast: None,
            beyond: None,
            in_the_way: Vec::new(),
            remedies: Vec::new(),
            nodes_of: None,
            nodes_as: None,
            nodes: Vec::new(),
        })))
    }

    fn line(&self, namespace: Option<&str>, name: &str) -> Option<Line> {
        if name == "many" {
            return None;
        }
        let place = |at: u32| Place {
            namespace: "ns".into(),
            name: format!("w{at}").into(),
            local_queue: namespace.map(|_| name.into()),
            priority: 7,
            created: Time(0),
            position: Position { in_cluster_queue: at, in_local_queue: Some(at) },
        };
        let (sender, answer) = oneshot::channel();
        let known = name == "q";
        sender.send(known.then(|| (0..3).map(place).collect())).expect("it is waited for");
        Some(answer)
    }
}

struct Server {
    address: std::net::SocketAddr,
    health: Arc<Health>,
    leading: watch::Sender<Option<tokio::time::Instant>>,
    metrics: Arc<Metrics>,
}

async fn start() -> Server {
    start_with(Health::default()).await
}

async fn start_with(health: Health) -> Server {
    let (leading, until) = watch::channel(None);
    let (health, metrics) = (Arc::new(health), Arc::new(Metrics::new()));
    let served = Served {
        metrics: metrics.clone(),
        health: health.clone(),
        leadership: Leadership::new(until),
        ask: Arc::new(Known),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(serve(listener, served, std::future::pending()));
    Server { address, health, leading, metrics }
}

impl Server {
    /// Status and the whole answer.
    async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), answer)
    }
}

#[tokio::test]
async fn probes_say_how_it_is() {
    let server = start().await;
    assert_eq!(server.get("/healthz").await.0, 200);
    let (status, says) = server.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(says.ends_with("not ready: the cluster is being read\n"), "{says}");
    server.health.unread(vec!["Node".to_owned(), "Cohort (kueue.x-k8s.io)".to_owned()]);
    let (status, says) = server.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(says.ends_with("read\nnot read yet: Node, Cohort (kueue.x-k8s.io)\n"), "{says}");
    server.health.unread(Vec::new());
    server.health.synced();
    assert!(server.get("/readyz").await.1.ends_with("ok: standing by\n"));
    server
        .leading
        .send(Some(tokio::time::Instant::now() + BEAT_MAX))
        .expect("the server holds the other end");
    let (status, says) = server.get("/readyz").await;
    assert_eq!(status, 200);
    assert!(says.ends_with("ok: leading\n"), "{says}");
    server.health.unread(vec!["Cohort (kueue.x-k8s.io)".to_owned()]);
    let (status, says) = server.get("/readyz").await;
    assert_eq!(status, 200, "another configuration named it: what was known is decided on");
    assert!(says.ends_with("ok: leading\nnot read yet: Cohort (kueue.x-k8s.io)\n"), "{says}");
    assert_eq!(server.get("/nowhere").await.0, 404);
}

#[tokio::test]
async fn a_thread_that_is_stuck_fails_its_probe() {
    let mut health = Health::default();
    let past = BEAT_MAX + Duration::from_secs(2);
    health.begun = health.begun.checked_sub(past).expect("the machine is up for longer");
    let server = start_with(health).await;
    let (status, says) = server.get("/healthz").await;
    assert_eq!(status, 503);
    assert!(says.contains("the engine has not answered for "), "{says}");
    server.health.beat();
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let server = start().await;
    let facts = NodeFacts {
        name: "n".into(),
        labels: Default::default(),
        taints: Vec::new(),
        unschedulable: false,
        allocatable: Default::default(),
        features: Vec::new(),
        images: Default::default(),
        capacity_type: capstan_core::model::input::CapacityType::Unknown,
        price: None,
    };
    let output = Engine::new().step(Time(0), vec![Input::Node(facts.into())]);
    server.metrics.step(&output.report, Duration::from_millis(1));
    server.metrics.published([("event_dropped", 3)]);
    let (status, says) = server.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(says.contains("capstan_rounds_total 1"), "{says}");
    assert!(says.contains("capstan_published_total{what=\"event_dropped\"} 3"), "{says}");
    assert!(says.contains("text/plain"), "{says}");
}

#[tokio::test]
async fn what_waits_in_a_queue_is_listed_in_order_and_in_parts() {
    let server = start().await;
    let items = |says: &str| -> Vec<serde_json::Value> {
        let body = says.split_once("\r\n\r\n").expect("a body").1;
        let parsed: serde_json::Value = serde_json::from_str(body).expect("JSON");
        parsed["items"].as_array().expect("a list").clone()
    };
    let (status, says) = server.get("/debug/pending/clusterqueue/q").await;
    let all = items(&says);
    assert_eq!((status, all.len()), (200, 3));
    assert_eq!(all[1]["metadata"]["name"], "w1");
    assert_eq!((&all[1]["positionInClusterQueue"], &all[1]["priority"]), (&1.into(), &7.into()));
    assert!(all[1]["localQueueName"].is_null());
    let path = "/debug/pending/localqueue/ns/q?offset=1&limit=1";
    let some = items(&server.get(path).await.1);
    assert_eq!((some.len(), &some[0]["metadata"]["name"]), (1, &"w1".into()));
    assert_eq!(
        (&some[0]["localQueueName"], &some[0]["positionInLocalQueue"]),
        (&"q".into(), &1.into())
    );
    let (_, says) = server.get("/debug/pending/clusterqueue/q?offset=9").await;
    assert!(items(&says).is_empty());
    let (status, says) = server.get("/debug/pending/localqueue/ns/none").await;
    assert_eq!((status, says.ends_with("no LocalQueue ns/none\n")), (404, true), "{says}");
    let (status, says) = server.get("/debug/pending/clusterqueue/q?limit=many").await;
    assert_eq!((status, says.ends_with("limit: \"many\" is no number\n")), (400, true), "{says}");
}

#[tokio::test]
async fn explanations_are_text_or_json() {
    let server = start().await;
    let (status, says) = server.get("/debug/explain/workload/ns/w").await;
    assert_eq!(status, 200);
    assert!(says.contains("ns/w") && !says.contains('\u{1b}'), "{says}");
    assert!(says.contains("capstan-answer: no\r\n"), "it waits: {says}");
    let (_, says) = server.get("/debug/explain/workload/ns/runs").await;
    assert!(says.contains("capstan-answer: yes\r\n"), "{says}");
    let (status, says) = server.get("/debug/explain/workload/ns/w?output=json").await;
    assert!(status == 200 && says.contains("application/json"), "{says}");
    assert!(says.contains("\"ns/w\""), "{says}");
    let (status, says) = server.get("/debug/explain/pod/ns/p?output=json").await;
    assert!(status == 200 && says.contains("\"pod\": \"ns/p\""), "{says}");
    assert!(says.contains("capstan-answer: no\r\n"), "it fits on no node: {says}");
    let (status, says) = server.get("/debug/explain/pod/ns/other").await;
    assert_eq!(status, 404);
    assert!(says.ends_with("no pod other in namespace ns\n"), "{says}");
    let (status, says) = server.get("/debug/explain/pod/ns/theirs").await;
    assert_eq!(status, 404);
    assert!(says.ends_with("Pod theirs is another's\n"), "{says}");
    assert_eq!(server.get("/debug/explain/pod/ns/p?output=yaml").await.0, 400);
    assert_eq!(server.get("/debug/explain/pod/ns/mute").await.0, 503);
}

#[tokio::test]
async fn who_asks_while_too_many_wait_is_told_to_ask_again() {
    let server = start().await;
    for path in ["/debug/explain/pod/ns/many", "/debug/pending/clusterqueue/many"] {
        let (status, says) = server.get(path).await;
        assert_eq!(status, 429, "{says}");
        assert!(says.contains("retry-after: 1\r\n"), "{says}");
        assert!(says.ends_with("too many wait for answers; ask again\n"), "{says}");
    }
}
