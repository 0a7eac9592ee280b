//! Gangs: as many as there is room for run whole, and no other begins.

use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{GpuNodes, name_of};
use serde_json::{Value, json};

use crate::judge;
use crate::scene::{Job, SOON, bare_gang, cluster, running, submit, wait_for};

/// Members of a gang, one GPU each: a node's worth.
const SIZE: usize = 8;
/// How long nothing more may happen.
const STILL: Duration = Duration::from_secs(5);

#[test]
fn of_twenty_gangs_exactly_as_many_as_fit_run_and_no_other_begins() {
    let cluster = cluster(&GpuNodes::new("h100", 12));
    let history = cluster.watch_pods().expect("a watch");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let jobs: Vec<Job> = (0..10).map(|at| Job::of("default", &format!("job-{at}"), 8)).collect();
    submit(&cluster, &jobs);
    let bare: Vec<Value> = (0..10).flat_map(|at| bare_gang(&format!("bare-{at}"), SIZE)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": bare});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");

    wait_for(&cluster, "pods", "twelve gangs run, all members are there", |pods| {
        running(pods, |_| true) == 12 * SIZE && pods.len() == 20 * SIZE
    });
    let waiting = wait_for(&cluster, "workloads.capstan.sh", "the rest say why", |all| {
        let waits = |it: &&Value| {
            it["status"]["state"] == "Queued" && it["status"]["reason"].as_str() != Some("")
        };
        all.iter().filter(waits).count() == 8 && all.len() == 20
    });
    let waits = |it: &&Value| it["status"]["state"] == "Queued";
    let names: Vec<&str> = waiting.iter().filter(waits).map(name_of).collect();
    wait_for(&cluster, "pods", "and so do their pods", |pods| {
        let says = |pod: &&Value| pod["status"]["conditions"][0]["type"] == "PodScheduled";
        pods.iter().filter(says).count() >= names.len()
    });
    thread::sleep(STILL);

    let gangs = judge::gangs(&history, SIZE);
    assert_eq!(gangs.len(), 12, "gangs that ever had a bound member: {gangs:?}");
    assert!(gangs.keys().all(|gang| !names.contains(&gang.as_str())), "{gangs:?} and {names:?}");
    judge::become_whole(&gangs, SOON);
    judge::binds_are_sound(&history, 8);
    let pods = history.now();
    let silent = pods.values().filter(|pod| pod.node.is_none() && pod.waits.is_none());
    let silent: Vec<&str> = silent.map(|pod| pod.name.as_str()).collect();
    assert!(pods.values().any(|pod| pod.node.is_none() && pod.waits.is_some()), "{silent:?}");
}
