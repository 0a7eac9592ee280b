//! Gangs: as many as there is room for run whole, and no other begins.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{GpuNodes, Options, name_of};
use serde_json::{Value, json};

use crate::judge;
use crate::scene::{Job, bare_gang, cluster_with, names, running, submit, wait_for, written};

/// Members of a gang, one GPU each: a node's worth.
const SIZE: usize = 8;
/// A gang's binds leave together, and take less than a second; one that is in part for longer than
/// a busy machine can make of that was left behind by something.
const IN_PART: Duration = Duration::from_secs(15);
/// Reasons that a member of these gangs has to wait, one after the other: its peers are not all
/// there, somebody is ahead, there is no room.
const TOLD_MAX: usize = 3;
/// How long nothing more may happen.
const STILL: Duration = Duration::from_secs(5);

#[test]
fn of_twenty_gangs_exactly_as_many_as_fit_run_and_no_other_begins() {
    let options = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let options = options.user("capstan", &["system:masters"]);
    let cluster = cluster_with(options, &GpuNodes::new("h100", 12));
    let history = cluster.watch_pods().expect("a watch");
    let own = cluster.kubeconfig_of("capstan").expect("a user");
    let mut capstan = cluster.capstan_as("capstan-0", "", &own).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let jobs: Vec<Job> = (0..10).map(|at| Job::of("default", &format!("job-{at}"), 8)).collect();
    submit(&cluster, &jobs);
    let bare: Vec<Value> = (0..10).flat_map(|at| bare_gang(&format!("bare-{at}"), SIZE)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": bare});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");

    wait_for(&cluster, "pods", "twelve gangs run, all members are there", |pods| {
        running(pods, |_| true) == 12 * SIZE && pods.len() == 20 * SIZE
    });
    let waiting = |it: &&Value| it["status"]["state"] == "Queued";
    let all = wait_for(&cluster, "workloads.capstan.sh", "the rest say why", |all| {
        let says = |it: &&Value| it["status"]["reason"].as_str().is_some_and(|it| !it.is_empty());
        let (waiting, silent): (Vec<_>, Vec<_>) = all.iter().filter(waiting).partition(says);
        all.len() == 20 && waiting.len() == 8 && silent.is_empty()
    });
    let rest: Vec<&str> = all.iter().filter(waiting).map(name_of).collect();
    let pods = wait_for(&cluster, "pods", "and so does each of their pods", |pods| {
        pods.iter().filter(|pod| !is_bound(pod)).all(says_why)
    });
    assert_eq!(pods.iter().filter(|pod| !is_bound(pod)).count(), 8 * SIZE);
    thread::sleep(STILL);

    let gangs = judge::gangs(&history, SIZE);
    assert_eq!(gangs.len(), 12, "gangs that ever had a bound member: {gangs:?}");
    assert!(gangs.keys().all(|gang| !rest.contains(&gang.as_str())), "{gangs:?} and {rest:?}");
    judge::become_whole(&gangs, IN_PART, &[]);
    judge::binds_are_sound(&history, 8);
    let pods = cluster.list("pods").expect("pods");
    let silent = names(&pods, |pod| !is_bound(pod) && !says_why(pod));
    assert_eq!(silent, [""; 0], "they say it still");
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    let of_pods = written(&cluster, "capstan").into_iter();
    of_pods.filter(|it| it.resource == "pods/status").for_each(|it| {
        *told.entry(it.name).or_default() += 1;
    });
    assert!(told.values().all(|times| *times <= TOLD_MAX), "a patch for each new reason: {told:?}");
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

/// Whether a pod that waits says that it is not scheduled, a reason, and numbers.
fn says_why(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let scheduled = conditions.and_then(|all| all.iter().find(|it| it["type"] == "PodScheduled"));
    scheduled.is_some_and(|it| {
        let text = |key: &str| it[key].as_str().unwrap_or_default();
        let numbers = text("message").contains(|letter: char| letter.is_ascii_digit());
        text("status") == "False" && !text("reason").is_empty() && numbers
    })
}
