//! Only its own: a pod of another scheduler is accounted, and never written to, whatever it says
//! about Capstan. Read from the API server's audit log.

use std::collections::BTreeSet;

use capstan_tests::cluster::{GpuNodes, Options, is_true, name_of};
use serde_json::{Value, json};

use crate::scene::{Job, bare_gang, cluster_with, names, running, submit, wait_for};

/// One queue for all GPUs, and priorities.
const QUEUE: &str = include_str!("own.yaml");
/// Verbs that write nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

/// Pods for kube-scheduler that bear everything that means something to Capstan.
fn foreign(name: &str, count: usize) -> Vec<Value> {
    let mut pods = bare_gang(name, count);
    for pod in &mut pods {
        pod["metadata"]["labels"]["capstan.sh/queue"] = json!("gpus");
        pod["metadata"]["annotations"]["capstan.sh/workload"] = json!("default/other");
        pod["spec"]["schedulerName"] = json!("default-scheduler");
        pod["spec"]["priorityClassName"] = json!("low");
    }
    pods
}

#[test]
fn a_pod_of_another_scheduler_is_never_written_to() {
    let parts = Options { audit: true, ..Options::full() }.user("capstan", &["system:masters"]);
    let cluster = cluster_with(parts, &GpuNodes::new("h100", 2));
    cluster.apply(QUEUE).expect("applied");
    let own = cluster.kubeconfig_of("capstan").expect("a user");
    let mut capstan = cluster.capstan_as("capstan-0", "", &own).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");

    // Six GPUs are theirs, and two of theirs find no room.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": foreign("theirs", 6)});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
    wait_for(&cluster, "pods", "theirs run", |pods| running(pods, |_| true) == 6);
    // A suspended Job of another scheduler in a queue of ours is nobody's to resume.
    let mut asleep = Job { queue: Some("gpus"), ..Job::new("default", "asleep") }.manifest();
    asleep["spec"]["suspend"] = json!(true);
    asleep["spec"]["template"]["spec"]["schedulerName"] = json!("default-scheduler");
    cluster.apply(&asleep.to_string()).expect("applied");
    // Ours fill the rest; a more important one makes room among ours only, another finds none.
    let low = Job { queue: Some("gpus"), class: Some("low"), ..Job::of("default", "low", 10) };
    submit(&cluster, &[low]);
    wait_for(&cluster, "pods", "ours run beside", |pods| running(pods, |_| true) == 16);
    let high = Job { queue: Some("gpus"), class: Some("high"), ..Job::of("default", "high", 8) };
    submit(&cluster, &[high]);
    let is_high = |name: &str| name.starts_with("high-");
    wait_for(&cluster, "pods", "the high one runs", |pods| running(pods, is_high) == 8);
    let more = Job { queue: Some("gpus"), class: Some("high"), ..Job::of("default", "more", 4) };
    submit(&cluster, &[more]);
    wait_for(&cluster, "workloads.capstan.sh", "one more waits and says why", |all| {
        let more = all.iter().find(|it| name_of(it) == "more");
        more.is_some_and(|it| it["status"]["reason"].as_str().is_some_and(|why| !why.is_empty()))
    });

    let pods = cluster.list("pods").expect("pods");
    assert_eq!(running(&pods, |name| name.starts_with("theirs-")), 6, "theirs run on");
    let jobs = cluster.list("jobs").expect("jobs");
    let suspended = names(&jobs, |job| is_true(job, "Suspended").is_some());
    assert_eq!(suspended, ["asleep", "low"]);
    let theirs: BTreeSet<&str> = pods
        .iter()
        .filter(|pod| pod["spec"]["schedulerName"] != "capstan")
        .map(name_of)
        .chain(["asleep"])
        .collect();
    let asked = cluster.audited().expect("the audit log");
    let ours: Vec<_> = asked.iter().filter(|it| it.user == "capstan").collect();
    assert!(ours.iter().any(|it| it.resource == "pods/binding"), "it is this user that binds");
    let written: Vec<_> = ours
        .iter()
        .filter(|it| !READS.contains(&it.verb.as_str()))
        .filter(|it| it.resource.starts_with("pods") || it.resource.starts_with("jobs"))
        .collect();
    assert!(!written.is_empty());
    let wrong: Vec<_> = written.iter().filter(|it| theirs.contains(it.name.as_str())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // A collection has no name: nothing of ours is ever written without one.
    let nameless: Vec<_> = written.iter().filter(|it| it.name.is_empty()).collect();
    assert!(nameless.is_empty(), "{nameless:?}");
}
