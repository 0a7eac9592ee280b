//! The engine's thread turn by turn, told by hand, on an API server that takes every bind.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::super::barrier::{self, COUNTED};
use super::super::message::{Asked, Batch, Question};
use super::*;
use crate::act::{Limits, Means};
use crate::api::devices::DeviceObject;
use crate::client::bucket::Bucket;
use crate::config::QuotaApi;
use crate::lease::Leadership;
use crate::live::Object;
use crate::read::kinds::{Origin, Queueing};

#[test]
fn a_burst_is_taken_in_few_turns_and_what_comes_alone_at_once() {
    let begin = Instant::now();
    let mut pace = Pace::default();
    assert_eq!(pace.rest(begin, false), Duration::ZERO, "nothing before it");
    let soon = begin + Duration::from_millis(1);
    assert_eq!(pace.rest(soon, false), PACE - Duration::from_millis(1));
    let turned = begin + PACE;
    assert_eq!(pace.rest(turned, false), PACE, "from the turn on that waited");
    let much_later = turned + PACE * 3;
    assert_eq!(pace.rest(much_later, false), Duration::ZERO, "it was quiet");
    assert_eq!(pace.rest(much_later, true), Duration::ZERO, "the engine has more to do");
    let millis = Duration::from_millis;
    pace.took(much_later, millis(1));
    assert_eq!(pace.rest(much_later + millis(1), false), millis(1) * PART - millis(1), "long");
    let later = much_later + PACE_MOST * 2;
    pace.rest(later, false);
    pace.took(later, millis(500));
    assert_eq!(pace.rest(later + millis(1), false), PACE_MOST - millis(1), "very long");
}

#[test]
fn the_thread_rests_on_while_there_is_plenty_but_not_for_ever() {
    let looks = std::cell::Cell::new(0);
    rest_while(|| looks.replace(looks.get() + 1) < 2);
    assert_eq!(looks.get(), 3, "until it has no more");
    rest_while(|| true);
    rest_while(|| false);
}

#[tokio::test]
async fn who_waits_is_told_once_what_came_before_was_acted_on() {
    let mut bench = Bench::new(&Config::default());
    let (tell, mut told) = oneshot::channel::<()>();
    bench.desk.take(Message::Settled(tell));
    assert!(told.try_recv().is_err(), "its turn has not been yet");
    bench.desk.turn();
    assert_eq!(told.try_recv(), Ok(()));
}

/// A desk, and what became of what it did.
struct Bench {
    desk: Desk,
    executor: Arc<Executor>,
    health: Arc<Health>,
    bound: Arc<parking_lot::Mutex<Vec<String>>>,
    /// What was asked of the API server: the method and the last part of the path.
    asked: Arc<parking_lot::Mutex<Vec<String>>>,
}

impl Bench {
    fn new(config: &Config) -> Bench {
        let bound: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
        let asked: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
        let (kept, log) = (bound.clone(), asked.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let pod = path.strip_suffix("/binding").and_then(|path| path.rsplit('/').next());
            kept.lock().extend(pod.map(str::to_owned));
            let last = path.rsplit('/').next().unwrap_or_default();
            log.lock().push(format!("{} {last}", request.method()));
            // Every Workload goes with a pod.
            let body = match path.contains("/workloads/") {
                true => json!({ "metadata": { "uid": "w", "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p" }] } }),
                false => json!({}),
            };
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, BoxError>(Response::builder().status(201).body(body)?) }
        });
        let clock = Clock::start();
        let executor = Arc::new(Executor::new(
            Means {
                writes: Client::new(service, "default"),
                rate: Bucket::unlimited(),
                leadership: Leadership::alone(),
                answers: Arc::new(|_| {}),
                clock,
            },
            Limits::default(),
        ));
        let health = Arc::new(Health::default());
        let tools = Tools {
            clock,
            executor: executor.clone(),
            publisher: Publisher::new(
                publish::Limits::default(),
                clock,
                config.scheduler_name.clone(),
            ),
            metrics: Arc::new(Metrics::new()),
            health: health.clone(),
            synced: watch::channel(false).0,
        };
        Bench { desk: Desk::new(config, tools), executor, health, bound, asked }
    }

    /// One that has seen this many nodes of one cpu, and otherwise an empty cluster.
    fn with_nodes(count: usize) -> Bench {
        let mut bench = Bench::new(&Config::default());
        let seen = Kind::all(&Config::default())
            .into_iter()
            .flat_map(|kind| [Seen::Listing(kind), Seen::Complete(kind)]);
        let mut seen: Vec<Seen> = seen.collect();
        seen.extend((0..count).map(|at| Seen::Applied(node(at))));
        bench.sees(seen);
        bench
    }

    fn told(&mut self, message: Message) {
        self.desk.take(message);
        self.desk.turn();
    }

    fn sees(&mut self, seen: Vec<Seen>) {
        self.told(Message::Seen(Batch::of(seen)));
    }

    /// Pods that were bound, once every effect was answered.
    async fn bound(&self) -> Vec<String> {
        // The answers of a drained executor are all there; later effects are for a new one.
        let patience = Duration::from_secs(60);
        assert_eq!(self.executor.drain(patience).await, 0);
        self.bound.lock().clone()
    }
}

fn node(at: usize) -> Object {
    let amounts = json!({ "cpu": "1", "pods": "10" });
    let node = json!({ "metadata": { "name": format!("n{at}") },
        "status": { "allocatable": amounts, "capacity": amounts,
            "conditions": [{ "type": "Ready", "status": "True" }] } });
    Object::Node(serde_json::from_value(node).expect("a node"))
}

/// A pod of ours that takes a whole node.
fn pod(name: &str, version: u64, on: Option<&str>) -> Seen {
    let mut value: Value = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "schedulerName": "capstan",
            "containers": [{ "resources": { "requests": { "cpu": "1" } } }] } });
    if let Some(node) = on {
        value["spec"]["nodeName"] = node.into();
    }
    Seen::Applied(Object::Pod(serde_json::from_value(value).expect("a pod")))
}

fn job(version: u64) -> Seen {
    let job = json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "j",
            "resourceVersion": version.to_string() },
        "spec": { "template": { "spec": { "containers": [{}] } } } });
    Seen::Applied(Object::Job(serde_json::from_value(job).expect("a Job")))
}

fn lead() -> Message {
    lead_after(Duration::ZERO)
}

/// After one that had been idle for so long.
fn lead_after(idle: Duration) -> Message {
    let served = |kind: &Kind| matches!(kind, Kind::Pod | Kind::Job);
    let marks = COUNTED.into_iter().map(|kind| (kind, served(&kind).then_some(100)));
    Message::Lead(marks.collect(), idle)
}

#[tokio::test]
async fn a_new_leader_gives_nothing_away_that_the_one_before_it_just_gave() {
    let mut bench = Bench::with_nodes(1);
    bench.sees(vec![pod("first", 90, None), pod("second", 91, None), job(100)]);
    // The lease is ours, and our watch has not shown the last bind of the leader before.
    bench.told(lead());
    assert_eq!(bench.desk.phase, Phase::Standby);
    assert!(bench.desk.patience() <= barrier::QUIET, "it looks again in time");
    bench.sees(vec![pod("first", 99, None)]);
    assert_eq!(bench.desk.phase, Phase::Standby, "that is older still");
    bench.sees(vec![pod("first", 100, Some("n0"))]);
    assert_eq!(bench.desk.phase, Phase::Leading, "now everything was seen");
    assert_eq!(bench.bound().await, Vec::<String>::new(), "the node is full");
}

#[tokio::test]
async fn a_new_leader_of_a_silent_cluster_binds_what_waits_without_any_news() {
    let mut bench = Bench::with_nodes(1);
    bench.sees(vec![pod("first", 90, None)]);
    bench.told(lead());
    assert_eq!(bench.desk.phase, Phase::Standby);
    thread::sleep(barrier::QUIET);
    assert_eq!(bench.desk.patience(), Duration::ZERO);
    bench.desk.turn();
    assert_eq!(bench.desk.phase, Phase::Leading);
    assert_eq!(bench.bound().await, ["first"]);
}

#[tokio::test]
async fn after_a_leader_that_had_been_idle_what_waits_is_bound_at_once() {
    let mut bench = Bench::with_nodes(1);
    bench.sees(vec![pod("first", 90, None)]);
    thread::sleep(barrier::QUIET);
    bench.told(lead_after(barrier::QUIET));
    assert_eq!(bench.desk.phase, Phase::Leading);
    assert_eq!(bench.bound().await, ["first"]);
}

#[tokio::test]
async fn who_is_told_to_stop_while_it_waits_to_lead_never_does() {
    let mut bench = Bench::with_nodes(1);
    bench.sees(vec![pod("first", 90, None)]);
    bench.told(lead());
    bench.told(Message::Stop);
    thread::sleep(barrier::QUIET);
    bench.desk.turn();
    assert_eq!((bench.desk.phase, bench.desk.patience()), (Phase::Stopped, NAP));
    assert_eq!(bench.bound().await, Vec::<String>::new());
}

/// A slice of devices, a class, and a claim whose selector is costly on each of them.
fn costly_devices() -> Vec<Seen> {
    let selector = "lists.range(80000).all(x, device.attributes['d.x'].at >= x - 80000)";
    let devices: Vec<Value> = (0..40)
        .map(|at| json!({ "name": format!("g{at}"), "attributes": { "at": { "int": at } } }))
        .collect();
    let pool = json!({ "name": "p", "generation": 1, "resourceSliceCount": 1 });
    let slice = json!({ "metadata": { "name": "s" },
        "spec": { "driver": "d.x", "nodeName": "n0", "pool": pool, "devices": devices } });
    let class = json!({ "metadata": { "name": "gpu" }, "spec": {} });
    let exactly = json!({ "deviceClassName": "gpu",
        "selectors": [{ "cel": { "expression": selector } }] });
    let claim = json!({ "metadata": { "name": "c", "namespace": "ns", "uid": "c" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } } });
    let objects = [
        DeviceObject::Slice(serde_json::from_value(slice).expect("a slice")),
        DeviceObject::Class(serde_json::from_value(class).expect("a class")),
        DeviceObject::Claim(serde_json::from_value(claim).expect("a claim")),
    ];
    objects.map(|object| Seen::Applied(Object::Devices(Box::new(object)))).into()
}

#[tokio::test]
async fn others_are_bound_while_costly_selectors_are_evaluated_turn_by_turn() {
    let mut bench = leading();
    let mut seen = costly_devices();
    seen.push(pod("plain", 101, None));
    bench.sees(seen);
    assert!(bench.desk.owes(), "forty devices are more than one turn does");
    assert_eq!(bench.desk.patience(), Duration::ZERO, "it goes on though nothing happens");
    let mut turns = 1;
    while bench.desk.owes() {
        bench.desk.turn();
        turns += 1;
    }
    assert!(turns > 2, "{turns} turns");
    assert_eq!(bench.bound().await, ["plain"]);
}

/// One that leads, with a node for each of two pods.
fn leading() -> Bench {
    let mut bench = Bench::with_nodes(2);
    bench.sees(vec![pod("before", 100, Some("n0")), job(100)]);
    bench.told(lead());
    assert_eq!(bench.desk.phase, Phase::Leading);
    bench
}

fn both() -> Config {
    Config { quota_apis: vec![QuotaApi::Capstan, QuotaApi::Kueue], ..Config::default() }
}

#[tokio::test]
async fn kinds_that_cannot_be_read_after_a_reload_do_not_stop_a_leader() {
    let mut bench = leading();
    bench.told(Message::Config(Box::new(both())));
    // A server that forbids a kind shows nothing of it, ever.
    bench.sees(vec![pod("after", 101, None)]);
    assert_eq!(bench.bound().await, ["after"]);
    assert!(*bench.desk.tools.synced.borrow(), "it stays ready");
    assert!(bench.desk.unread.contains(&Kind::Queueing(Queueing::Cohort, Group::Kueue)));
    assert!(bench.desk.tools.metrics.encode().contains("capstan_kinds_unread 6"));
    assert_eq!(bench.health.what_is_unread().len(), 6);
}

#[tokio::test]
async fn kinds_of_a_reload_count_once_all_of_them_were_read() {
    let mut bench = leading();
    bench.told(Message::Config(Box::new(both())));
    let queue = || {
        let queue = json!({ "metadata": { "name": "q", "uid": "q" }, "spec": {} });
        Object::Queueing(Queueing::ClusterQueue, Origin::KueueV1Beta2, Box::new(queue))
    };
    let names = |bench: &Bench| -> Vec<String> {
        bench.desk.engine.queues().iter().map(|queue| queue.name.to_string()).collect()
    };
    let mut seen = Vec::new();
    for kind in bench.desk.unread.clone() {
        bench.sees(std::mem::take(&mut seen));
        assert_eq!(names(&bench), Vec::<String>::new(), "half of a group is not all of it");
        seen = vec![Seen::Listing(kind), Seen::Complete(kind)];
        if kind == Kind::Queueing(Queueing::ClusterQueue, Group::Kueue) {
            seen.insert(1, Seen::Listed(queue()));
        }
    }
    bench.sees(seen);
    assert_eq!(names(&bench), ["q"]);
    assert!(bench.desk.tools.metrics.encode().contains("capstan_kinds_unread 0"));
    assert!(bench.health.what_is_unread().is_empty());
}

#[test]
fn at_the_start_a_kind_that_cannot_be_read_is_waited_for_and_named() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _entered = runtime.enter();
    let mut bench = Bench::new(&both());
    let forbidden = Kind::Queueing(Queueing::Cohort, Group::Kueue);
    for kind in Kind::all(&both()).into_iter().filter(|kind| *kind != forbidden) {
        bench.sees(vec![Seen::Listing(kind), Seen::Complete(kind)]);
    }
    assert!(!*bench.desk.tools.synced.borrow(), "not ready");
    assert_eq!(bench.health.what_is_unread(), ["Cohort (kueue.x-k8s.io)"]);
    bench.sees(vec![Seen::Absent(forbidden)]);
    assert!(*bench.desk.tools.synced.borrow());
}

/// Who stands by has looked at nobody; it answers as an engine would that began to lead.
#[tokio::test]
async fn who_stands_by_says_why_work_waits_as_a_leader_would() {
    let mut bench = Bench::with_nodes(1);
    // Pod by pod, so that each was met before there was anything to say of it.
    for (at, name) in ["one", "two"].into_iter().enumerate() {
        bench.sees(vec![pod(name, at as u64 + 1, None)]);
    }
    let (to, answer) = oneshot::channel();
    let question = Question::Workload("ns".into(), "two".into(), to);
    bench.told(Message::Ask(Asked::of(question)));
    let found = answer.await.expect("an answer").expect("there is such a workload");
    let said =
        found.explanation.workload.reason.map(|reason| reason.to_string()).unwrap_or_default();
    assert!(said.contains("0/1 nodes are available: 1 Insufficient cpu"), "{said}");
    assert_eq!(bench.bound().await, [] as [String; 0], "and decides nothing");
}

#[tokio::test]
async fn a_turn_of_a_leader_answers_one_who_still_waits() {
    let mut bench = leading();
    let mut ask = |name: &str| {
        let (to, answer) = oneshot::channel();
        let question = Question::Pod("ns".into(), name.to_owned(), to);
        bench.desk.take(Message::Ask(Asked::of(question)));
        answer
    };
    let (gone, mut first, mut second) = (ask("before"), ask("before"), ask("nobody"));
    drop(gone);
    bench.desk.turn();
    assert!(first.try_recv().expect("an answer").is_ok());
    assert!(second.try_recv().is_err(), "the engine has its own work between two questions");
    assert_eq!(bench.desk.patience(), Duration::ZERO);
    bench.desk.turn();
    let answer = second.try_recv().expect("an answer");
    assert_eq!(answer.err(), Some(None), "there is no such pod");
}

#[tokio::test]
async fn who_asks_for_a_pod_of_another_scheduler_is_told_whose_it_is() {
    let theirs = json!({ "metadata": { "name": "theirs", "namespace": "ns", "uid": "theirs" },
        "spec": { "schedulerName": "volcano", "containers": [{}] } });
    let theirs = || serde_json::from_value(theirs.clone()).expect("a pod");
    for mut bench in [leading(), Bench::with_nodes(1)] {
        bench.sees(vec![Seen::Applied(Object::Pod(theirs()))]);
        let (to, answer) = oneshot::channel();
        let question = Question::Pod("ns".into(), "theirs".into(), to);
        bench.told(Message::Ask(Asked::of(question)));
        let says = answer.await.expect("an answer").err().flatten().expect("it is somebody's");
        let begins =
            "Pod theirs in namespace ns is no pod of ours: it names schedulerName: volcano";
        assert!(says.starts_with(begins), "{says}");
    }
}

#[tokio::test]
async fn who_ends_answers_nobody() {
    let mut bench = leading();
    let (to, mut answer) = oneshot::channel();
    bench.desk.take(Message::Ask(Asked::of(Question::Line(None, "q".into(), to))));
    bench.told(Message::Stop);
    assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}

/// A member of the gang `duo` that runs there.
fn member(at: usize) -> Seen {
    let name = format!("duo-{at}");
    let pod = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name,
            "resourceVersion": "100", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "capstan.sh/gang": "duo" },
            "annotations": { "capstan.sh/min-member": "2" } },
        "spec": { "schedulerName": "capstan", "nodeName": format!("n{at}"),
            "containers": [{ "resources": { "requests": { "cpu": "1" } } }] } });
    Seen::Applied(Object::Pod(serde_json::from_value(pod).expect("a pod")))
}

/// Nobody but the executor can have it let go before the pods are gone: what is told of work that
/// is being stopped waits until that has come about.
#[tokio::test]
async fn what_holds_a_gang_lets_go_of_its_pods_before_they_are_stopped() {
    let mut bench = Bench::with_nodes(2);
    bench.sees(vec![member(0), member(1), job(100)]);
    bench.told(lead());
    assert_eq!(bench.desk.phase, Phase::Leading);
    let hold = json!({ "metadata": { "name": "duo", "namespace": "ns", "uid": "w" },
        "spec": { "active": false } });
    let hold = Object::Queueing(Queueing::Workload, Origin::Capstan, Box::new(hold));
    bench.sees(vec![Seen::Applied(hold)]);
    assert_eq!(bench.bound().await, [] as [String; 0]);
    let mut asked = bench.asked.lock().clone();
    asked[2..].sort_unstable();
    let stops = ["DELETE duo-0", "DELETE duo-1", "PATCH status", "PATCH status"];
    assert_eq!(asked, [&["GET duo", "PATCH duo"][..], &stops].concat());
}
