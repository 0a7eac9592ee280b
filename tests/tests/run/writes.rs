//! What Capstan writes while work waits and preempts, counted in the API server's audit log.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{Audited, GpuNodes, Options, name_of};
use k8s_openapi::jiff::Timestamp;

use crate::kills::say;
use crate::scene::{Job, cluster_with, running, submit, wait_for, written};

/// One queue for all GPUs, and priorities.
const QUEUE: &str = include_str!("own.yaml");
/// Jobs that wait.
const WAITING: usize = 20;
/// Pods of each.
const PODS: usize = 4;
/// How long they do.
const WATCHED: Duration = Duration::from_secs(20);

fn job(name: &str, class: &'static str, pods: usize) -> Job {
    let pods = u32::try_from(pods).expect("few");
    Job { queue: Some("gpus"), class: Some(class), ..Job::of("default", name, pods) }
}

/// What was written, by verb and resource.
fn counted(written: &[Audited]) -> BTreeMap<(&str, &str), usize> {
    let mut all = BTreeMap::new();
    for one in written {
        *all.entry((one.verb.as_str(), one.resource.as_str())).or_default() += 1;
    }
    all
}

/// Never more than these, and nothing else.
fn within(written: &[Audited], budget: &[(&str, &str, usize)]) {
    let counted = counted(written);
    say(&format!("{counted:#?}"));
    for ((verb, resource), times) in &counted {
        let most = budget.iter().find(|it| (it.0, it.1) == (*verb, *resource)).map_or(0, |it| it.2);
        assert!(*times <= most, "{times} × {verb} {resource}, {most} at most: {counted:#?}");
    }
}

/// One Binding for a pod, one Workload for a gang, one patch of an owner that is stopped; and
/// statuses when they change, a write a second for each object at most.
#[test]
fn work_that_waits_and_one_preemption_cost_few_writes() {
    let parts = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let parts = parts.user("capstan", &["system:masters"]);
    let cluster = cluster_with(parts, &GpuNodes::new("h100", 2));
    cluster.apply(QUEUE).expect("applied");
    let own = cluster.kubeconfig_of("capstan").expect("a user");
    let mut capstan = cluster.capstan_as("capstan-0", "", &own).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let begun = Timestamp::now();
    submit(&cluster, &[job("runs-0", "low", 8), job("runs-1", "low", 8)]);
    wait_for(&cluster, "pods", "they run", |pods| running(pods, |_| true) == 16);
    let waiting = (0..WAITING).map(|at| job(&format!("waits-{at}"), "low", PODS));
    submit(&cluster, &waiting.collect::<Vec<_>>());
    wait_for(&cluster, "workloads.capstan.sh", "all say why they wait", |all| {
        let says = |it: &&serde_json::Value| {
            it["status"]["reason"].as_str().is_some_and(|reason| !reason.is_empty())
        };
        all.iter().filter(says).count() == WAITING
    });
    thread::sleep(WATCHED);
    let waited = written(&cluster, "capstan");
    // The last ten seconds, when all was said.
    let rest = Timestamp::now() - Duration::from_secs(10);
    let quiet: Vec<Audited> = waited.iter().filter(|it| it.received > rest).cloned().collect();
    // Places in a queue are renewed every 30 s.
    within(&quiet, &[("update", "leases", 7), ("patch", "workloads/status", WAITING)]);

    submit(&cluster, &[job("boss", "high", 8)]);
    wait_for(&cluster, "pods", "the high one runs", |pods| {
        running(pods, |name| name.starts_with("boss-")) == 8
    });
    wait_for(&cluster, "workloads.capstan.sh", "it is said", |all| {
        let boss = all.iter().find(|it| name_of(it) == "boss");
        boss.is_some_and(|it| it["status"]["state"] == "Running")
    });
    // What is merged and comes late.
    thread::sleep(Duration::from_secs(5));
    say(&cluster.kubectl(&["get", "wl,cq,lq", "-o", "wide"]).expect("printed"));
    let seconds = Timestamp::now().duration_since(begun).as_secs().unsigned_abs();
    let seconds = usize::try_from(seconds).expect("few") + 1;
    let all = written(&cluster, "capstan");
    let after: Vec<Audited> = all.iter().filter(|it| it.received > begun).cloned().collect();
    let (gangs, pods) = (WAITING + 3, WAITING * PODS + 16 + 8);
    let budget = [
        ("create", "pods/binding", 16 + 8),
        // Why it waits, or a node that it is nominated for; who runs at once says nothing.
        ("patch", "pods/status", pods - 16),
        ("create", "workloads", gangs),
        // Why it waits, what changes by a preemption, its place now and later; and for those that
        // run that they do, and that their pods are ready.
        ("patch", "workloads/status", 3 * gangs),
        // Who is stopped.
        ("patch", "jobs", 1),
        // What keeps it there while it is used, once.
        ("patch", "clusterqueues", 1),
        ("patch", "clusterqueues/status", seconds),
        ("patch", "localqueues/status", seconds),
        // Droppable, and of low priority: three things at most of each, on it and on its owner.
        ("create", "events", 6 * gangs),
        ("update", "leases", seconds),
    ];
    within(&after, &budget);
    let counted = counted(&after);
    assert_eq!(counted[&("create", "pods/binding")], 16 + 8);
    assert_eq!(counted[&("create", "workloads")], gangs);
    assert_eq!(counted[&("patch", "jobs")], 1);
}
