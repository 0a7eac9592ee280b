//! Memory of a leader's large parts, the cluster as seen, the engine and what people are shown,
//! from generated API objects: 15,000 nodes and 150,000 pods in Jobs of ten.
//!
//! Objects come as a watch shows them: decoded from JSON into slim types, one at a time; each pod
//! is seen waiting, is decided on, its bind is answered, and it is seen bound and running. What
//! the engine tells is published: a server in memory makes each gang's Workload, writes its
//! statuses and takes events, and answers as an API server does, with all that it would add
//! (`managed`). What is counted is resident memory above that of the process before anything was
//! seen, nodes, Jobs and queues included. Not in it: connections.

use capstan::config::Config;

use capstan::clock::Clock;
use capstan::live::{Kind, Live, Object, Seen};
use capstan::publish::{Limits, Publisher};
use capstan::read::kinds::{Origin, Queueing};
use capstan_core::Engine;
use capstan_core::model::input::Input;
use capstan_core::plan::{Action, EffectResult};
use capstan_core::time::{Span, Time};
use capstan_tests::cluster::GpuNodes;
use serde_json::{Value, json};

use super::answers::Answers;
use crate::memory::resident;

const NODES: usize = 15_000;
const JOBS: usize = 15_000;
const MEMBERS: usize = 10;
const QUEUES: usize = 100;
/// Jobs between two steps.
const BATCH: usize = 100;
/// Bytes for a pod, at most.
pub const MOST: u64 = 2_048;

/// Bytes per pod above the empty process, or why there is no such figure.
pub fn bytes_per_pod() -> Result<u64, &'static str> {
    let before = resident().ok_or("no /proc/self/statm")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut shown = Shown::new(runtime.map_err(|_| "no runtime")?);
    let config = Config::default();
    let mut live = Live::new(&config);
    let mut engine = Engine::new();
    let policy = Input::Policy(std::sync::Arc::new(config.policy.clone()));
    engine.step(Time(1), vec![policy]);
    ground(&mut live);
    Kind::all(&config).into_iter().for_each(|kind| live.take(Seen::Complete(kind)));
    let now = Time(1_800_000_000_000);
    engine.step(now, live.drain(now).inputs);
    let mut bound = 0;
    for first in (0..JOBS).step_by(BATCH) {
        for job in first..first + BATCH {
            live.take(Seen::Applied(job_object(job)));
            (0..MEMBERS).for_each(|at| live.take(Seen::Applied(pod(job, at, None, "Pending"))));
        }
        bound += settle(&mut live, &mut engine, &shown.publisher, now);
        shown.catch_up();
    }
    let made = shown.answers.made();
    shown.everything(&engine, &live);
    let above = resident().ok_or("no /proc/self/statm")?.saturating_sub(before);
    assert_eq!((live.count(Kind::Pod), bound), (JOBS * MEMBERS, JOBS * MEMBERS));
    assert_eq!((made, shown.answers.made()), (JOBS, JOBS), "each gang has a Workload");
    Ok(above / (JOBS * MEMBERS) as u64)
}

/// What people are shown, and the server that it is written to.
struct Shown {
    publisher: Publisher,
    answers: Answers,
    client: kube::Client,
    runtime: tokio::runtime::Runtime,
    clock: Clock,
    /// How far time has gone, for whoever may write an object only once a second.
    by: Span,
}

impl Shown {
    fn new(runtime: tokio::runtime::Runtime) -> Shown {
        let (clock, answers) = (Clock::start(), Answers::default());
        let limits = Limits { writes: 1_000_000, events: 1_000_000 };
        let client = {
            let _inside = runtime.enter();
            answers.client()
        };
        let publisher = Publisher::new(limits, clock, "capstan".into());
        Shown { publisher, answers, client, runtime, clock, by: Span(0) }
    }

    /// Writes all that is to be shown.
    fn catch_up(&mut self) {
        while self.publisher.backlog() > 0 {
            self.by = Span(self.by.0 + 5_000);
            let now = self.clock.now().plus(self.by);
            self.runtime.block_on(self.publisher.catch_up(now, &self.client));
        }
        self.answers.forget();
    }

    /// Looks at everything as a leader does again and again: what is shown already costs nothing.
    fn everything(&mut self, engine: &Engine, live: &Live) {
        self.publisher.queues(engine.queues());
        self.publisher.local_queues(engine.local_queues());
        let mut mark = Some(0);
        while let Some(from) = mark {
            let (page, next) = engine.details_from(from, 500);
            self.publisher.workloads(page, live);
            self.catch_up();
            mark = next;
        }
    }
}

/// Steps until nothing happens any more, shows that everything was done, and tells of it.
fn settle(live: &mut Live, engine: &mut Engine, publisher: &Publisher, now: Time) -> usize {
    let (mut bound, mut told) = (0, Vec::new());
    loop {
        let mut inputs = live.drain(now).inputs;
        inputs.append(&mut told);
        if inputs.is_empty() {
            return bound;
        }
        loop {
            let output = engine.step(now, std::mem::take(&mut inputs));
            for effect in output.effects {
                publisher.publish(&effect, engine, live);
                let Action::Bind { pod: named, node, .. } = effect.action else { continue };
                bound += 1;
                let mut numbers = named.name.split('-').skip(1).map(|it| it.parse::<usize>());
                let (Some(Ok(job)), Some(Ok(at))) = (numbers.next(), numbers.next()) else {
                    unreachable!("pods are named here")
                };
                for phase in ["Pending", "Running"] {
                    live.take(Seen::Applied(pod(job, at, Some(&node), phase)));
                }
                told.push(Input::Outcome { effect: effect.id, result: EffectResult::Done });
            }
            if output.report.quiet {
                break;
            }
        }
    }
}

fn ground(live: &mut Live) {
    let nodes = GpuNodes::new("h100", NODES);
    for at in 0..NODES {
        let mut node = nodes.manifest(at, true);
        node["metadata"]["uid"] = json!(uid(2, at, 0));
        let node = serde_json::from_value(node).expect("a node");
        live.take(Seen::Applied(Object::Node(Box::new(node))));
    }
    let namespace = json!({"metadata": {"name": "team", "uid": uid(6, 0, 0)}});
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    live.take(Seen::Applied(Object::Meta(Kind::Namespace, Box::new(namespace))));
    let mut queueing = |kind, api: &str, value: Value| {
        let mut value = value;
        value["apiVersion"] = json!("capstan.sh/v1alpha1");
        value["kind"] = json!(api);
        live.take(Seen::Applied(Object::Queueing(kind, Origin::Capstan, Box::new(value))));
    };

    let flavor = json!({"metadata": {"name": "h100", "uid": uid(3, 0, 0)}, "spec": {}});
    queueing(Queueing::ResourceFlavor, "ResourceFlavor", flavor);
    for at in 0..QUEUES {
        let name = format!("queue-{at}");
        let resources = json!([{"name": "cpu", "nominalQuota": "100k"}]);
        let group = json!({"coveredResources": ["cpu"],
            "flavors": [{"name": "h100", "resources": resources}]});
        let queue = json!({"metadata": {"name": name, "uid": uid(4, at, 0)},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]}});
        queueing(Queueing::ClusterQueue, "ClusterQueue", queue);
        let local = json!({
            "metadata": {"name": name, "namespace": "team", "uid": uid(5, at, 0)},
            "spec": {"clusterQueue": name}});
        queueing(Queueing::LocalQueue, "LocalQueue", local);
    }
}

fn uid(kind: usize, at: usize, member: usize) -> String {
    format!("{at:08x}-1b2c-4d3e-{kind:04x}-{member:012x}")
}

fn spec() -> Value {
    let amounts = json!({"cpu": "16"});
    json!({
        "schedulerName": "capstan",
        "priority": 0,
        "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
    })
}

fn job_object(job: usize) -> Object {
    let value = json!({
        "metadata": {
            "name": format!("train-{job}"),
            "namespace": "team",
            "uid": uid(0, job, 0),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"capstan.sh/queue": format!("queue-{}", job % QUEUES)},
        },
        "spec": {"parallelism": MEMBERS, "completions": MEMBERS, "completionMode": "Indexed",
            "template": {"spec": spec()}},
    });
    Object::Job(serde_json::from_value(value).expect("a Job"))
}

fn pod(job: usize, at: usize, node: Option<&str>, phase: &str) -> Object {
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "controller": true,
        "name": format!("train-{job}"), "uid": uid(0, job, 0)});
    let mut value = json!({
        "metadata": {
            "name": format!("train-{job}-{at}-x7k2p"),
            "namespace": "team",
            "uid": uid(1, job, at),
            "creationTimestamp": "2026-01-01T00:00:01Z",
            "labels": {"batch.kubernetes.io/job-completion-index": at.to_string()},
            "ownerReferences": [owner],
        },
        "spec": spec(),
        "status": {"phase": phase},
    });
    if let Some(node) = node {
        value["spec"]["nodeName"] = json!(node);
        value["metadata"]["annotations"] = json!({
            "capstan.sh/workload": format!("job-train-{job}"),
            "capstan.sh/flavors": r#"{"cpu":"h100"}"#,
            "capstan.sh/admitted-at": "2026-01-01T00:00:02Z",
        });
    }
    Object::Pod(serde_json::from_value(value).expect("a pod"))
}
