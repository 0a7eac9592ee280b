//! What people delete while Capstan works with it.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{GpuNodes, is_true, name_of};

use crate::scene::{Job, cluster, names, running, submit, wait_for};

/// One queue for all GPUs, and priorities.
const QUEUE: &str = include_str!("own.yaml");
/// How long nothing more may happen.
const STILL: Duration = Duration::from_secs(3);

#[test]
fn pods_of_a_job_that_was_deleted_start_nowhere_and_stop_nobody() {
    let cluster = cluster(&GpuNodes::new("h100", 2));
    let history = cluster.watch_pods().expect("a watch");
    cluster.apply(QUEUE).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let job = |name: &str, class, pods| Job {
        queue: Some("gpus"),
        class: Some(class),
        ..Job::of("default", name, pods)
    };
    submit(&cluster, &[job("low-a", "low", 4), job("low-b", "low", 5)]);
    wait_for(&cluster, "pods", "nine run", |pods| running(pods, |_| true) == 9);
    // One that has no room but would fit in part, and one that never fits but would preempt.
    submit(&cluster, &[job("large", "low", 8), job("never", "high", 40)]);
    wait_for(&cluster, "workloads.capstan.sh", "both wait and say why", |all| {
        let waits = |name: &str| {
            let one = all.iter().find(|it| name_of(it) == name);
            one.is_some_and(|it| it["status"]["reason"].as_str().is_some_and(|it| !it.is_empty()))
        };
        waits("large") && waits("never")
    });
    wait_for(&cluster, "pods", "all pods are there", |pods| pods.len() == 57);
    // The Jobs go first, then their pods one by one.
    cluster.kubectl(&["delete", "job", "large", "never"]).expect("deleted");
    wait_for(&cluster, "pods", "their pods are gone", |pods| pods.len() == 9);
    wait_for(&cluster, "workloads.capstan.sh", "and their Workloads", |all| all.len() == 2);
    thread::sleep(STILL);
    let jobs = cluster.list("jobs").expect("jobs");
    let stopped = names(&jobs, |job| is_true(job, "Suspended").is_some());
    assert!(stopped.is_empty(), "{stopped:?} for a Job that is gone");
    let mut bound = BTreeSet::new();
    history.replay(|_, pods| {
        let some = pods.values().filter(|pod| pod.node.is_some());
        bound.extend(some.map(|pod| pod.name.clone()));
    });
    let low = |name: &String| name.starts_with("low-");
    assert!(bound.len() == 9 && bound.iter().all(low), "{bound:?}");
}

#[test]
fn what_shows_the_state_is_there_again() {
    let cluster = cluster(&GpuNodes::new("h100", 2));
    cluster.apply(QUEUE).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "train", 4) }]);
    let runs = || {
        let uid = wait_for(&cluster, "workloads.capstan.sh", "it is shown", |all| {
            all.iter().any(|it| it["status"]["state"] == "Running")
        });
        uid[0]["metadata"]["uid"].as_str().expect("a uid").to_owned()
    };
    let first = runs();
    cluster.kubectl(&["delete", "workloads.capstan.sh", "train"]).expect("deleted");
    assert_ne!(runs(), first);
    let counted = |kind: &str| {
        wait_for(&cluster, kind, "its numbers are shown", |all| {
            all.iter().any(|it| it["status"]["admittedWorkloads"] == 1)
        });
    };
    counted("clusterqueues.capstan.sh");
    counted("localqueues.capstan.sh");
    // What runs keeps its queue, unless somebody forces it out.
    let kind = "clusterqueues.capstan.sh";
    cluster.kubectl(&["delete", kind, "gpus", "--wait=false"]).expect("deleted");
    let free = r#"{"metadata": {"finalizers": null}}"#;
    cluster.kubectl(&["patch", kind, "gpus", "--type=merge", "-p", free]).expect("forced out");
    cluster.kubectl_with(&["replace", "--force", "-f", "-"], QUEUE).expect("replaced");
    counted("clusterqueues.capstan.sh");
    counted("localqueues.capstan.sh");
    let pods = cluster.list("pods").expect("pods");
    assert_eq!(running(&pods, |_| true), 4, "it ran all the time");
}
