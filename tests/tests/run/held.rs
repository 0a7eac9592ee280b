//! Work that people hold by its Workload: it stops, waits with the reason, and goes on later; and
//! a queue that is drained.

use capstan_tests::cluster::{Audited, ControlPlane, GpuNodes, Options, name_of};
use serde_json::{Value, json};

use crate::scene::{self, Job, bare_gang, cluster, led, running, submit, wait_for};

fn state(workloads: &[Value], name: &str) -> (String, String) {
    let found = workloads.iter().find(|it| name_of(it) == name);
    let text = |key: &str| {
        let said = found.and_then(|it| it["status"][key].as_str());
        said.unwrap_or_default().to_owned()
    };
    (text("state"), text("reason"))
}

#[test]
fn a_workload_that_is_deactivated_stops_and_goes_on_when_it_is_active_again() {
    let (cluster, mut capstan) = led(&GpuNodes::new("h100", 1));
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "train", 4) }]);
    let runs = |pods: &[Value]| running(pods, |name| name.starts_with("train-")) == 4;
    wait_for(&cluster, "pods", "the Job runs", runs);
    wait_for(&cluster, "workloads.capstan.sh", "its Workload says so", |all| {
        state(all, "train").0 == "Running"
    });

    let active = |value: bool| {
        let patch = json!({"spec": {"active": value}}).to_string();
        cluster
            .kubectl(&["patch", "wl", "train", "--type", "merge", "-p", &patch])
            .expect("patched");
    };
    active(false);
    let held = wait_for(&cluster, "workloads.capstan.sh", "it is held", |all| {
        let (state, reason) = state(all, "train");
        state == "Queued" && reason.contains("spec.active: false")
    });
    let conditions = held[0]["status"]["conditions"].as_array().expect("conditions");
    let of = |kind: &str| conditions.iter().find(|it| it["type"] == kind).expect("said");
    assert_eq!(of("Evicted")["reason"], "Deactivated");
    assert_eq!(of("QuotaReserved")["reason"], "Deactivated");
    wait_for(&cluster, "pods", "its pods are gone", <[Value]>::is_empty);
    let jobs = cluster.list("jobs").expect("jobs");
    assert_eq!(jobs[0]["spec"]["suspend"], true);

    // Another replica finds it held before it decides anything.
    assert_eq!(capstan.process.end(scene::SOON).expect("it ends"), 0);
    let mut second = cluster.capstan("second", "").expect("started");
    second.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "other", 8) }]);
    wait_for(&cluster, "pods", "others run in its place", |pods| {
        running(pods, |name| name.starts_with("other-")) == 8
    });
    let pods = cluster.list("pods").expect("pods");
    assert!(!pods.iter().any(|pod| name_of(pod).starts_with("train-")), "it stays held");
    cluster.kubectl(&["delete", "job", "other"]).expect("deleted");

    active(true);
    wait_for(&cluster, "pods", "it runs again", runs);
}

/// The gang `duo` without an owner, whose pods are gone as soon as they are deleted.
fn duo() -> Vec<Value> {
    let mut members = bare_gang("duo", 2);
    for member in &mut members {
        member["spec"]["terminationGracePeriodSeconds"] = json!(0);
    }
    members
}

/// Work that comes later runs, and no pod of the held gang is bound.
fn duo_stays_held(cluster: &ControlPlane) {
    submit(cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "other", 4) }]);
    wait_for(cluster, "pods", "another runs", |pods| {
        running(pods, |name| name.starts_with("other-")) == 4
    });
    let pods = cluster.list("pods").expect("pods");
    let bound = |it: &&Value| name_of(it).starts_with("duo-") && !it["spec"]["nodeName"].is_null();
    assert_eq!(pods.iter().filter(bound).count(), 0, "it stays held");
}

#[test]
fn a_gang_without_an_owner_stays_held_when_all_its_pods_are_replaced() {
    let (cluster, _capstan) = led(&GpuNodes::new("h100", 1));
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "first", 8) }]);
    let first = |name: &str| name.starts_with("first-");
    wait_for(&cluster, "pods", "all GPUs are taken", |pods| running(pods, first) == 8);
    scene::create(&cluster, bare_gang("duo", 2));
    wait_for(&cluster, "workloads.capstan.sh", "it waits", |all| state(all, "duo").0 == "Queued");
    let hold = json!({"spec": {"active": false}}).to_string();
    cluster.kubectl(&["patch", "wl", "duo", "--type", "merge", "-p", &hold]).expect("patched");
    let held = |all: &[Value]| {
        let (state, reason) = state(all, "duo");
        state == "Queued" && reason.contains("spec.active: false")
    };
    let before = wait_for(&cluster, "workloads.capstan.sh", "it is held", held);
    let uid = |all: &[Value]| {
        let found = all.iter().find(|it| name_of(it) == "duo").expect("it is there");
        found["metadata"]["uid"].clone()
    };
    wait_for(&cluster, "workloads.capstan.sh", "it goes with nobody", |all| {
        let found = all.iter().find(|it| name_of(it) == "duo");
        found.is_some_and(|it| it["metadata"]["ownerReferences"].is_null())
    });
    // All of them together.
    cluster.kubectl(&["delete", "pod", "duo-0", "duo-1"]).expect("deleted");
    scene::create(&cluster, bare_gang("duo", 2));
    // There is room, and somebody else takes a part of it.
    cluster.kubectl(&["delete", "job", "first"]).expect("deleted");
    duo_stays_held(&cluster);
    let after = wait_for(&cluster, "workloads.capstan.sh", "it says so", held);
    assert_eq!(uid(&after), uid(&before), "by the same object");
}

#[test]
fn a_gang_without_an_owner_that_is_held_while_it_runs_stays_so_when_its_pods_are_made_again() {
    let options = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let cluster = scene::cluster_with(options, &GpuNodes::new("h100", 1));
    cluster.apply(include_str!("one-queue.yaml")).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    scene::create(&cluster, duo());
    let before = wait_for(&cluster, "workloads.capstan.sh", "it runs", |all| {
        state(all, "duo").0 == "Running"
    });
    let hold = json!({"spec": {"active": false}}).to_string();
    cluster.kubectl(&["patch", "wl", "duo", "--type", "merge", "-p", &hold]).expect("patched");
    wait_for(&cluster, "pods", "its pods are stopped", <[Value]>::is_empty);
    scene::create(&cluster, duo());
    let after = wait_for(&cluster, "workloads.capstan.sh", "it is held", |all| {
        let (state, reason) = state(all, "duo");
        state == "Queued" && reason.contains("spec.active: false")
    });
    assert_eq!(after[0]["metadata"]["uid"], before[0]["metadata"]["uid"], "by the same object");
    duo_stays_held(&cluster);

    // It was not luck: nobody deleted a pod before the object had let go of all of them.
    let asked = cluster.audited().expect("the audit log");
    let patches =
        |it: &&Audited| (&*it.verb, &*it.resource, &*it.name) == ("patch", "workloads", "duo");
    let by_hand = |it: &&Audited| it.uri.contains("fieldManager=kubectl-patch");
    let held = asked.iter().filter(patches).find(by_hand).expect("it was held").received;
    let deletes = asked.iter().filter(|it| (&*it.verb, &*it.resource) == ("delete", "pods"));
    let stopped = deletes.map(|it| it.received).min().expect("its pods were stopped");
    let lets_go = |it: &Audited| held < it.received && it.received < stopped && it.is_done();
    assert!(asked.iter().filter(patches).any(lets_go), "{asked:#?}");
}

/// The same where nobody but Capstan says that it may not run.
#[test]
fn a_gang_without_an_owner_that_never_starts_is_held_when_its_pods_are_made_again() {
    let config = "waitForPodsReady: {timeout: 3s, requeuingStrategy: {backoffLimitCount: 0}}\n";
    let cluster = cluster(&GpuNodes::new("h100", 1));
    cluster.apply(include_str!("one-queue.yaml")).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", config).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let never_starts = || {
        let mut members = duo();
        for member in &mut members {
            member["metadata"]["labels"]["capstan.sh/queue"] = json!("gpus");
            member["metadata"]["annotations"]["test.capstan.sh/never-starts"] = json!("true");
        }
        members
    };
    scene::create(&cluster, never_starts());
    let before = wait_for(&cluster, "workloads.capstan.sh", "it has its object", |all| {
        all.iter().any(|it| name_of(it) == "duo")
    });
    wait_for(&cluster, "pods", "its pods are stopped", <[Value]>::is_empty);
    scene::create(&cluster, never_starts());
    let after = wait_for(&cluster, "workloads.capstan.sh", "it is held", |all| {
        let (state, reason) = state(all, "duo");
        state == "Queued" && reason.contains("spec.active: false")
    });
    assert_eq!(after[0]["metadata"]["uid"], before[0]["metadata"]["uid"], "by the same object");
    duo_stays_held(&cluster);
}

#[test]
fn a_queue_that_is_drained_stops_its_work_and_starts_it_again() {
    let (cluster, _capstan) = led(&GpuNodes::new("h100", 1));
    submit(&cluster, &[Job { queue: Some("gpus"), ..Job::of("default", "train", 4) }]);
    let runs = |pods: &[Value]| running(pods, |name| name.starts_with("train-")) == 4;
    wait_for(&cluster, "pods", "the Job runs", runs);
    let stop = |policy: &str| {
        let patch = json!({"spec": {"stopPolicy": policy}}).to_string();
        cluster
            .kubectl(&["patch", "cq", "gpus", "--type", "merge", "-p", &patch])
            .expect("patched");
    };
    stop("HoldAndDrain");
    wait_for(&cluster, "jobs", "the Job is suspended", |jobs| jobs[0]["spec"]["suspend"] == true);
    wait_for(&cluster, "workloads.capstan.sh", "it says why", |all| {
        let conditions = all.iter().flat_map(|it| it["status"]["conditions"].as_array());
        let mut conditions = conditions.flatten();
        conditions.any(|it| it["type"] == "Evicted" && it["reason"] == "ClusterQueueStopped")
    });
    stop("None");
    wait_for(&cluster, "pods", "it runs again", runs);
}

#[test]
fn a_gang_whose_name_no_object_may_have_gets_its_workload() {
    let cluster = cluster(&GpuNodes::new("h100", 1));
    let _capstan = cluster.capstan("capstan", "").expect("started");
    let mut members = bare_gang("exp-42", 2);
    for member in &mut members {
        member["metadata"]["labels"]["capstan.sh/gang"] = json!("Exp_42");
    }
    scene::create(&cluster, members);
    wait_for(&cluster, "workloads.capstan.sh", "it has its Workload", |all| {
        state(all, "exp-42").0 == "Running"
    });
    let (code, said, errors) =
        cluster.capstan_says(&["explain", "workload/Exp_42"]).expect("it runs");
    assert_eq!((code, said.contains("default/exp-42")), (0, true), "{said}{errors}");
}
