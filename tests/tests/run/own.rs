//! Only its own: a pod of another scheduler is accounted, and never written to, whatever it says
//! about Capstan. Read from the API server's audit log.

use std::collections::BTreeSet;

use capstan_tests::cluster::{ControlPlane, GpuNodes, Options, is_true, name_of};
use serde_json::{Value, json};

use crate::scene::{Job, bare_gang, cluster_with, names, running, submit, wait_for, written};

/// One queue for all GPUs, and priorities.
const QUEUE: &str = include_str!("own.yaml");
/// A scheduler that there is not.
const NOBODY: &str = "nobody";

/// Pods of another scheduler that bear everything that means something to Capstan.
fn foreign(scheduler: &str, name: &str, count: usize) -> Vec<Value> {
    let mut pods = bare_gang(name, count);
    for pod in &mut pods {
        pod["metadata"]["labels"]["capstan.sh/queue"] = json!("gpus");
        pod["metadata"]["annotations"]["capstan.sh/workload"] = json!("default/other");
        pod["spec"]["schedulerName"] = json!(scheduler);
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

    // Six GPUs are theirs; and a whole gang waits for who never comes, with room to be had.
    let mut items = foreign("default-scheduler", "theirs", 6);
    items.extend(foreign(NOBODY, "nobodys", 2));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
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
    // Quota it would have; what stands in its way is theirs, and lower than it.
    wait_for(&cluster, "workloads.capstan.sh", "one more waits and says why", |all| {
        let more = all.iter().find(|it| name_of(it) == "more");
        let conditions = more.and_then(|it| it["status"]["conditions"].as_array());
        let mut reserved = conditions.into_iter().flatten();
        reserved.any(|it| it["type"] == "QuotaReserved" && it["reason"] == "WaitingForCapacity")
    });

    let pods = cluster.list("pods").expect("pods");
    assert_eq!(running(&pods, |name| name.starts_with("theirs-")), 6, "theirs run on");
    let nobodys = |pod: &Value| pod["spec"]["schedulerName"] == NOBODY;
    let untouched = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        let silent = conditions.is_none_or(Vec::is_empty);
        pod["status"]["phase"] == "Pending" && pod["spec"]["nodeName"].is_null() && silent
    };
    let waiting = names(&pods, |pod| nobodys(pod) && untouched(pod));
    assert_eq!(waiting, ["nobodys-0", "nobodys-1"], "nobody said anything of them");
    let shown = cluster.list("workloads.capstan.sh").expect("workloads");
    assert_eq!(names(&shown, |_| true), ["high", "low", "more"], "only ours are shown");
    let jobs = cluster.list("jobs").expect("jobs");
    let suspended = names(&jobs, |job| is_true(job, "Suspended").is_some());
    assert_eq!(suspended, ["asleep", "low"]);
    let theirs: BTreeSet<&str> = pods
        .iter()
        .filter(|pod| pod["spec"]["schedulerName"] != "capstan")
        .map(name_of)
        .chain(["asleep"])
        .collect();
    assert!(theirs.len() == 6 + 2 + 1, "{theirs:?}");
    let_be(&cluster, &theirs);
}

/// Capstan's user wrote to none of these, and said nothing of them.
fn let_be(cluster: &ControlPlane, theirs: &BTreeSet<&str>) {
    let written = written(cluster, "capstan");
    let written: Vec<_> = written
        .iter()
        .filter(|it| it.resource.starts_with("pods") || it.resource.starts_with("jobs"))
        .collect();
    let wrong: Vec<_> = written.iter().filter(|it| theirs.contains(it.name.as_str())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // What has no name may be anybody's: nothing of ours is ever written without one.
    let nameless: Vec<_> = written.iter().filter(|it| it.name.is_empty()).collect();
    assert!(nameless.is_empty(), "{nameless:?}");
    let events = cluster.list("events").expect("events");
    let told = names(&events, |it| {
        let about = it["involvedObject"]["name"].as_str().unwrap_or_default();
        it["reportingComponent"] == "capstan" && theirs.contains(about)
    });
    assert_eq!(told, [""; 0], "nor is anything said of theirs");
}
