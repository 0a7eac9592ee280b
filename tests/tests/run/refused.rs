//! Stops that the API refuses, here by a policy of the cluster's owners: the preemptor says so in
//! their words, others are stopped instead, and nobody asks without end.

use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{
    Audited, ControlPlane, GpuNodes, Options, eventually, is_true, name_of,
};
use serde_json::{Value, json};

use crate::kills::say;
use crate::scene::{Job, SOON, cluster_with, create, names, running, submit, wait_for, written};

/// One queue for all GPUs, and priorities.
const QUEUE: &str = include_str!("own.yaml");
/// What may not be stopped.
const POLICIES: &str = include_str!("refused.yaml");
/// How long it is watched how often stops are asked for that are refused.
const WATCHED: Duration = Duration::from_secs(20);
/// So often at most in that time: pauses double from 1 s to 10 s, and each try names one victim.
const TRIES: usize = 8;

fn job(name: &str, class: &'static str) -> Job {
    Job { queue: Some("gpus"), class: Some(class), ..Job::of("default", name, 4) }
}

/// A pod of nobody that takes a node.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"capstan.sh/queue": "gpus"},
        },
        "spec": {
            "schedulerName": "capstan",
            "priorityClassName": "low",
            "containers": [{
                "name": "c",
                "image": "example/main",
                "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": 8, "memory": "8Gi"}},
            }],
        },
    })
}

/// Waits until the policies hold: they are asked for what they do not allow, for show.
fn wait_for_policies(cluster: &ControlPlane) {
    let suspend = r#"{"spec": {"suspend": true}}"#;
    let asked: [&[&str]; 2] = [
        &["patch", "job", "kept", "--type=merge", "--dry-run=server", "-p", suspend],
        &["delete", "pod", "stays", "--dry-run=server"],
    ];
    for words in asked {
        eventually("a policy holds", SOON, || match cluster.kubectl(words) {
            Ok(said) => Err(said),
            Err(trouble) if trouble.to_string().contains("by its owner's wish") => Ok(()),
            Err(trouble) => Err(trouble.to_string()),
        })
        .expect("it holds");
    }
}

/// What Capstan asked of them that was refused.
fn refused(cluster: &ControlPlane) -> Vec<Audited> {
    let asks = |it: &Audited| ["jobs", "pods"].contains(&it.resource.as_str()) && it.code == 422;
    written(cluster, "capstan").into_iter().filter(asks).collect()
}

fn runs(cluster: &ControlPlane, prefix: &str) {
    wait_for(cluster, "pods", &format!("{prefix} runs"), |pods| {
        running(pods, |name| name.starts_with(prefix)) == 4
    });
}

/// What a Workload says of its quota.
fn says(all: &[Value], name: &str) -> String {
    let one = all.iter().find(|it| name_of(it) == name);
    let conditions = one.and_then(|it| it["status"]["conditions"].as_array());
    let mut reserved = conditions.into_iter().flatten();
    let reserved = reserved.find(|it| it["type"] == "QuotaReserved");
    reserved.and_then(|it| it["message"].as_str()).unwrap_or_default().to_owned()
}

fn suspended(cluster: &ControlPlane) -> Vec<String> {
    let jobs = cluster.list("jobs").expect("jobs");
    names(&jobs, |job| is_true(job, "Suspended").is_some())
}

#[test]
fn whoever_may_not_be_stopped_is_passed_over_and_asked_again_later() {
    let parts = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let parts = parts.user("capstan", &["system:masters"]);
    let cluster = cluster_with(parts, &GpuNodes::new("h100", 2));
    cluster.apply(QUEUE).expect("applied");
    cluster.apply(POLICIES).expect("applied");
    let own = cluster.kubeconfig_of("capstan").expect("a user");
    let mut capstan = cluster.capstan_as("capstan-0", "", &own).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    // Who was admitted last goes first.
    create(&cluster, vec![pod("stays")]);
    wait_for(&cluster, "pods", "it runs", |pods| running(pods, |name| name == "stays") == 1);
    for name in ["other", "kept"] {
        submit(&cluster, &[job(name, "low")]);
        runs(&cluster, name);
        // Times of admission are whole seconds.
        thread::sleep(Duration::from_millis(1_100));
    }
    wait_for_policies(&cluster);

    // The one is refused, the next one is not.
    submit(&cluster, &[job("boss-1", "high")]);
    runs(&cluster, "boss-1");
    assert_eq!(suspended(&cluster), ["other"]);
    let asked = refused(&cluster);
    assert!(asked.iter().all(|it| it.name == "kept" && it.verb == "patch"), "{asked:?}");
    assert_eq!(asked.len(), 1, "asked once: {asked:?}");

    // Nobody may be stopped any more: it says so, and asks now and then.
    submit(&cluster, &[job("boss-2", "high")]);
    let said = wait_for(&cluster, "workloads.capstan.sh", "it says why", |all| {
        says(all, "boss-2").contains("by its owner's wish")
    });
    let said = says(&said, "boss-2");
    assert!(said.contains("could not stop default/"), "{said}");
    say(&said);
    thread::sleep(WATCHED);
    let since = asked.len();
    let asked = refused(&cluster).split_off(since);
    let (deleted, patched): (Vec<_>, Vec<_>) = asked.iter().partition(|it| it.verb == "delete");
    say(&format!("{} deletions and {} patches were refused", deleted.len(), patched.len()));
    assert!(deleted.iter().all(|it| it.name == "stays") && !deleted.is_empty(), "{deleted:?}");
    assert!(patched.iter().all(|it| it.name == "kept"), "{patched:?}");
    assert!((2..=TRIES).contains(&asked.len()), "{asked:?}");
    // Each try that may write marks the pod and takes the mark off again.
    let all = written(&cluster, "capstan");
    let marks = all.iter().filter(|it| it.resource == "pods/status" && it.name == "stays").count();
    assert!(marks <= 2 * deleted.len() + 1, "{marks} marks for {} tries", deleted.len());
    let pods = cluster.list("pods").expect("pods");
    let stays = pods.iter().find(|it| name_of(it) == "stays").expect("it is there");
    assert_eq!(stays["status"]["phase"], "Running");
    assert_eq!(suspended(&cluster), ["other"], "nobody else was stopped");

    cluster.kubectl_with(&["delete", "-f", "-"], POLICIES).expect("deleted");
    runs(&cluster, "boss-2");
}
