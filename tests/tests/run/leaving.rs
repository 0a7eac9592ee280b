//! How a replica begins and ends: what was decided is carried out and told before the lease is
//! free for others, and without an election late writes of who was killed are waited for.

use std::thread;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{Capstan, ControlPlane, GpuNodes, History, Options};
use serde_json::{Value, json};

use crate::scene::{self, Job, SOON, wait_for};

/// Pods of which most are still to be bound when the first one is seen.
const MANY: usize = 800;
/// Pods whose events are told within the second or two that a replica has for it.
const FEW: usize = 40;
/// A replica that was too quick to be caught at work says nothing; each time it would.
const TRIES: usize = 3;
/// How long a replica without an election waits before it decides anything.
const SETTLE: Duration = Duration::from_secs(2);
/// Nobody else wants it.
const LEASE: &str =
    "leaderElection: {leaseDuration: 120s, renewDeadline: 90s, retryPeriod: 500ms}\n";

/// One-GPU pods without an owner that name Capstan.
fn pods(cluster: &ControlPlane, prefix: &str, count: usize) {
    let template = Job::new("default", prefix).manifest()["spec"]["template"].take();
    let pod = |at: usize| {
        let metadata = json!({"name": format!("{prefix}-{at}"), "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    };
    scene::create(cluster, (0..count).map(pod).collect());
}

fn bound(history: &History, prefix: &str) -> usize {
    history.look(|pods| {
        pods.values().filter(|pod| pod.name.starts_with(prefix) && pod.holds()).count()
    })
}

/// Waits until a watch of the API shows the first bind; how many it showed then.
fn first_bind(capstan: &mut Capstan, history: &History, prefix: &str) -> usize {
    let end = Instant::now() + SOON;
    loop {
        match bound(history, prefix) {
            0 if Instant::now() > end => {
                panic!("{}", capstan.process.trouble("nothing was bound"))
            }
            0 => thread::sleep(Duration::from_millis(1)),
            some => return some,
        }
    }
}

/// When an object was written last, in the count that all objects of a cluster share.
fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().expect("of the API");
    version.parse().expect("a number")
}

/// Ends a leader as soon as its first bind is seen; whether it had more under way then.
fn ends_at_work(cluster: &ControlPlane, prefix: &str) -> bool {
    let history = cluster.watch_pods().expect("a watch");
    pods(cluster, prefix, MANY);
    let mut capstan = cluster.capstan(prefix, LEASE).expect("started");
    let before = first_bind(&mut capstan, &history, prefix);
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
    // Nobody is left who would write anything more.
    let lease = cluster.kubectl(&["get", "lease", "capstan", "-o", "json"]).expect("a lease");
    let lease: Value = serde_json::from_str(&lease).expect("JSON");
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert_eq!(holder, "", "the lease is free");
    let all = cluster.list("pods").expect("pods");
    let bound = all.iter().filter(|pod| pod["spec"]["nodeName"].is_string());
    let versions: Vec<u64> = bound.map(version).collect();
    assert_eq!(versions.len(), MANY, "what was decided is carried out");
    let last = versions.into_iter().max().expect("many");
    assert!(last < version(&lease), "{last}: written after the lease was given back");
    before < MANY
}

#[test]
fn a_leader_that_ends_carries_out_what_it_decided_before_the_lease_is_free() {
    let nodes = GpuNodes::new("h100", MANY.div_ceil(8));
    for at in 0..TRIES {
        let cluster = scene::cluster_with(Options::bare(), &nodes);
        if ends_at_work(&cluster, &format!("try-{at}")) {
            return;
        }
    }
    panic!("{TRIES} times all pods were bound before it could be asked to end");
}

#[test]
fn a_leader_that_ends_says_what_it_did_first() {
    let cluster = scene::cluster_with(Options::bare(), &GpuNodes::new("h100", FEW.div_ceil(8)));
    let history = cluster.watch_pods().expect("a watch");
    pods(&cluster, "few", FEW);
    let mut capstan = cluster.capstan("capstan-0", LEASE).expect("started");
    first_bind(&mut capstan, &history, "few");
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
    let events = cluster.list("events.v1.events.k8s.io").expect("events");
    let said = events.iter().filter(|event| event["reason"] == "Scheduled").count();
    assert_eq!(said, FEW, "of each pod that it was bound, though the rate allows few at once");
}

#[test]
fn without_an_election_late_writes_of_another_are_waited_for() {
    let cluster = scene::cluster_with(Options::bare(), &GpuNodes::new("h100", 1));
    pods(&cluster, "waits", 1);
    let begun = Instant::now();
    let capstan = cluster.capstan("capstan-0", "leaderElection: {leaderElect: false}\n");
    let mut capstan = capstan.expect("started");
    wait_for(&cluster, "pods", "it is bound", |pods| {
        pods.iter().any(|pod| pod["spec"]["nodeName"].is_string())
    });
    let took = begun.elapsed();
    assert!(took >= SETTLE, "bound after {took:?}");
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
    let leases = cluster.list("leases.coordination.k8s.io").expect("leases");
    let ours = leases.iter().filter(|it| it["metadata"]["name"] == "capstan").count();
    assert_eq!(ours, 0, "nobody is elected");
}
