//! The life of replicas: who leads, who takes over, what a changed file does.

use std::fs;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{Capstan, ControlPlane, GpuNodes, capstan_config, eventually};
use capstan_tests::exercise::QUEUES;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::scene::{self, Job, SOON, running, submit, wait_for};

/// A lease that runs out while a test can wait for it.
const SHORT_LEASE: &str =
    "leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}\n";

/// A control plane with eight GPUs, without kube-scheduler.
fn cluster() -> ControlPlane {
    scene::cluster(&GpuNodes::new("h100", 1))
}

fn replica(cluster: &ControlPlane, name: &str) -> Capstan {
    cluster.capstan(name, SHORT_LEASE).expect("started")
}

/// Submits a Job and waits until it runs.
fn runs(cluster: &ControlPlane, name: &str) {
    submit(cluster, &[Job::new("default", name)]);
    let prefix = format!("{name}-");
    let pods = |pods: &[Value]| running(pods, |pod| pod.starts_with(&prefix)) == 1;
    wait_for(cluster, "pods", &format!("{name} runs"), pods);
}

/// Who holds the lease; nobody: nothing.
fn holder(cluster: &ControlPlane) -> String {
    let words = ["get", "lease", "capstan", "-o", "jsonpath={.spec.holderIdentity}"];
    cluster.kubectl(&words).expect("a lease")
}

/// Milliseconds of a time as the API writes it.
fn time(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap_or_else(|e| panic!("{text}: {e}")).as_millisecond()
}

#[test]
fn a_standby_takes_over_in_good_order_and_after_a_kill() {
    let cluster = cluster();
    let mut first = replica(&cluster, "first");
    first.wait_until(&cluster, "leading").expect("it leads");
    let mut second = replica(&cluster, "second");
    second.wait_until(&cluster, "standing by").expect("it waits");
    runs(&cluster, "one");
    assert!(holder(&cluster).starts_with("first_"));

    let asked = Instant::now();
    assert_eq!(first.process.end(SOON).expect("it ends"), 0);
    second.wait_until(&cluster, "leading").expect("it leads");
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(4), "the lease was not given back: {took:?}");
    runs(&cluster, "two");

    let mut third = replica(&cluster, "third");
    third.wait_until(&cluster, "standing by").expect("it waits");
    second.process.kill();
    // Nobody leads; what comes now is for the next one.
    submit(&cluster, &[Job::new("default", "three")]);
    third.wait_until(&cluster, "leading").expect("it leads");
    let pods = |pods: &[Value]| running(pods, |pod| pod.starts_with("three-")) == 1;
    let pods = wait_for(&cluster, "pods", "three runs", pods);
    let third = pods.iter().find(|it| it["metadata"]["labels"]["job-name"] == "three");
    let admitted = &third.expect("its pod")["metadata"]["annotations"]["capstan.sh/admitted-at"];
    let words = ["get", "lease", "capstan", "-o", "jsonpath={.spec.acquireTime}"];
    let acquired = time(&cluster.kubectl(&words).expect("a lease"));
    let took = time(admitted.as_str().expect("a time")) - acquired;
    assert!((-10..1_000).contains(&took), "{took} ms from the lease to the decision");
    let pods = cluster.list("pods").expect("pods");
    assert_eq!(running(&pods, |_| true), 3, "those of before go on");
}

#[test]
fn a_deposed_leader_ends_at_once() {
    let cluster = cluster();
    let mut first = replica(&cluster, "first");
    first.wait_until(&cluster, "leading").expect("it leads");
    let words = [
        "patch",
        "lease",
        "capstan",
        "--type=merge",
        "--patch={\"spec\": {\"holderIdentity\": \"somebody-else\"}}",
    ];
    cluster.kubectl(&words).expect("patched");
    assert_eq!(first.process.wait(SOON).expect("watched"), Some(1));
    assert_eq!(holder(&cluster), "somebody-else");
}

#[test]
fn another_configuration_holds_without_a_restart_and_a_broken_one_does_not() {
    let cluster = cluster();
    cluster.apply(QUEUES).expect("applied");
    let hold = format!("{SHORT_LEASE}unqueuedWorkloads: Hold\n");
    let mut capstan = cluster.capstan("capstan", &hold).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[Job::new("default", "unqueued")]);
    let why = |pods: &[Value]| {
        let said = pods.iter().filter_map(|pod| pod["status"]["conditions"][0]["message"].as_str());
        said.into_iter().any(|says| says.contains("queue"))
    };
    wait_for(&cluster, "pods", "it waits and says why", why);

    let log = || fs::read_to_string(capstan.process.log()).expect("its log");
    let path = capstan.config().to_owned();
    let broken = format!("{SHORT_LEASE}unqueuedWorkload: Allow\n");
    fs::write(&path, capstan_config(&broken)).expect("written");
    eventually("the broken file is said", SOON, || {
        let log = log();
        let said = log.contains("unqueuedWorkload") && log.contains("still holds");
        if said { Ok(()) } else { Err(log) }
    })
    .expect("said");
    assert_eq!(running(&cluster.list("pods").expect("pods"), |_| true), 0);

    let allow = format!("{SHORT_LEASE}unqueuedWorkloads: Allow\n");
    fs::write(&path, capstan_config(&allow)).expect("written");
    wait_for(&cluster, "pods", "it runs", |pods| running(pods, |_| true) == 1);
    assert!(capstan.get(&cluster, "/readyz").expect("ready").contains("leading"));
    let metrics = capstan.get(&cluster, "/metrics").expect("metrics");
    assert!(metrics.contains("capstan_leader 1"), "{metrics}");
    let counted = [
        "capstan_pods_bound_total 1",
        "capstan_effects_total{action=\"bind\",result=\"done\"} 1",
        "capstan_config_reloads_total{result=\"refused\"} 1",
        "capstan_config_reloads_total{result=\"taken\"} 1",
    ];
    for line in counted {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
}
