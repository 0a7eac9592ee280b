//! Two Capstans in one cluster. Under names of their own each does its own work and touches nothing
//! that is the other's; under one name only one of them leads, wherever they were started.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{ControlPlane, GpuNodes, Options, name_of};
use serde_json::{Value, json};

use crate::scene::{self, Job, cluster_with, names, running, says, submit, wait_for, written};

/// The name of the other one.
const DEV: &str = "capstan-dev";
/// How long the two are left alone with each other.
const BESIDE: Duration = Duration::from_secs(5);
/// How long nothing changes of objects that are settled.
const QUIET: Duration = Duration::from_secs(2);

/// Which object stands under each name, and its version.
fn versions(cluster: &ControlPlane) -> BTreeMap<String, (String, String)> {
    let all = cluster.list("workloads.capstan.sh").expect("workloads");
    let text = |it: &Value, key: &str| it["metadata"][key].as_str().unwrap_or_default().to_owned();
    let version = |it: &Value| (text(it, "uid"), text(it, "resourceVersion"));
    all.iter().map(|it| (name_of(it).to_owned(), version(it))).collect()
}

/// The same, once nothing is written to them any more.
fn settled(cluster: &ControlPlane) -> BTreeMap<String, (String, String)> {
    let mut before = versions(cluster);
    for _ in 0..20 {
        thread::sleep(QUIET);
        let after = versions(cluster);
        if before == after {
            return after;
        }
        before = after;
    }
    panic!("they are written to all the time: {before:?}");
}

fn is_held(all: &[Value], name: &str) -> bool {
    let status = all.iter().find(|it| name_of(it) == name).map(|it| &it["status"]);
    status.is_some_and(|status| {
        let reason = status["reason"].as_str().unwrap_or_default();
        status["state"] == "Queued" && reason.contains("spec.active: false")
    })
}

#[test]
fn a_capstan_of_another_name_touches_no_workload_of_ours() {
    let options = Options { audit: true, controller_manager: true, kwok: true, ..Options::bare() };
    let options = options.user("dev", &["system:masters"]);
    let cluster = cluster_with(options, &GpuNodes::new("h100", 1));
    cluster.apply(include_str!("one-queue.yaml")).expect("applied");
    let mut ours = cluster.capstan("capstan-0", "").expect("started");
    ours.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "held", 4) }]);
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "runs", 2) }]);
    wait_for(&cluster, "pods", "both run", |pods| running(pods, |_| true) == 6);
    // What is shown of them comes after that, in its own time.
    wait_for(&cluster, "workloads.capstan.sh", "both are shown", |all| all.len() == 2);
    let hold = json!({"spec": {"active": false}}).to_string();
    let words = ["patch", "wl", "held", "--type", "merge", "-p", &hold];
    cluster.kubectl(&words).expect("patched");
    wait_for(&cluster, "workloads.capstan.sh", "it is held", |all| is_held(all, "held"));
    let is_of = |name: &str, of: &str| name.starts_with(&format!("{of}-"));
    wait_for(&cluster, "pods", "its pods are gone", |pods| {
        !pods.iter().any(|pod| is_of(name_of(pod), "held"))
    });
    // By hand, before the work is there.
    let early = json!({"apiVersion": "capstan.sh/v1alpha1", "kind": "Workload",
        "metadata": {"name": "early", "namespace": "default"}, "spec": {"active": false}});
    cluster.apply(&early.to_string()).expect("applied");
    let before = settled(&cluster);
    assert_eq!(before.keys().collect::<Vec<_>>(), ["early", "held", "runs"]);

    let own = cluster.kubeconfig_of("dev").expect("a user");
    let config = format!("schedulerName: {DEV}\n");
    let mut dev = cluster.capstan_as("dev-0", &config, &own).expect("started");
    dev.wait_until(&cluster, "leading").expect("it leads its own");
    let mut theirs = Job::new("default", "theirs").manifest();
    theirs["spec"]["template"]["spec"]["schedulerName"] = json!(DEV);
    theirs["spec"]["parallelism"] = json!(2);
    theirs["spec"]["completions"] = json!(2);
    cluster.apply(&theirs.to_string()).expect("applied");
    wait_for(&cluster, "workloads.capstan.sh", "it shows its own work", |all| {
        let shown = all.iter().find(|it| name_of(it) == "theirs");
        let label = |it: &Value| it["metadata"]["labels"]["capstan.sh/scheduler-name"] == DEV;
        shown.is_some_and(|it| label(it) && it["status"]["state"] == "Running")
    });
    says(&dev, &["does not say whose it is"]);
    thread::sleep(BESIDE);

    let mut after = versions(&cluster);
    assert!(after.remove("theirs").is_some());
    assert_eq!(after, before);
    let pods = cluster.list("pods").expect("pods");
    assert_eq!(running(&pods, |name| is_of(name, "runs")), 2);
    assert_eq!(names(&pods, |pod| is_of(name_of(pod), "held")), [""; 0], "it stays held");
    let wrong: Vec<_> = written(&cluster, "dev")
        .into_iter()
        .filter(|it| it.resource.starts_with("workloads") && before.contains_key(&it.name))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");

    // Who comes to what was held by hand takes it over.
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "early", 1) }]);
    let all = wait_for(&cluster, "workloads.capstan.sh", "it is held", |all| is_held(all, "early"));
    let early = all.iter().find(|it| name_of(it) == "early").expect("it is there");
    assert_eq!(early["metadata"]["labels"]["capstan.sh/scheduler-name"], "capstan");
}

#[test]
fn who_is_started_from_a_desk_waits_for_the_one_that_is_installed() {
    let cluster = scene::cluster(&GpuNodes::new("h100", 1));
    cluster.create_namespace("capstan-system").expect("created");
    let there = "leaderElection: {resourceNamespace: capstan-system}\n";
    let mut installed = cluster.capstan("installed", there).expect("started");
    installed.wait_until(&cluster, "leading").expect("it leads");
    let mut desk = cluster.capstan("desk", "").expect("started");
    says(&desk, &["another replica leads"]);
    desk.wait_until(&cluster, "standing by").expect("it waits");
    let leases = cluster.list("leases.coordination.k8s.io").expect("leases");
    let ours = leases.iter().filter(|it| name_of(it) == "capstan");
    let homes: Vec<_> = ours.map(|it| it["metadata"]["namespace"].clone()).collect();
    assert_eq!(homes, ["capstan-system"]);
}
