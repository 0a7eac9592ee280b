//! A ClusterQueue that is deleted while work runs in it: it stays and is charged until that has
//! ended, whoever leads, and then it goes.

use capstan_tests::cluster::{ControlPlane, GpuNodes, name_of};
use serde_json::{Value, json};

use crate::judge;
use crate::scene::{Job, SOON, cluster, end, running, submit, wait_for};

const QUEUES: &str = include_str!("terminating.yaml");
const KIND: &str = "clusterqueues.capstan.sh";
/// Ours, and one of somebody else.
const IN_USE: &str = "capstan.sh/in-use";
const HOLD: &str = "tests.capstan.sh/hold";

fn job(team: &'static str, name: &str) -> Job {
    Job { queue: Some("gpus"), ..Job::of(team, name, 4) }
}

fn runs(pods: &[Value], prefix: &str) -> usize {
    running(pods, |name| name.starts_with(prefix))
}

fn named<'a>(queues: &'a [Value], name: &str) -> Option<&'a Value> {
    queues.iter().find(|queue| name_of(queue) == name)
}

fn finalizers(queues: &[Value], name: &str) -> Value {
    named(queues, name).map(|queue| queue["metadata"]["finalizers"].clone()).unwrap_or_default()
}

/// Whether a queue says that it is being deleted.
fn terminating(queues: &[Value], name: &str) -> bool {
    let Some(queue) = named(queues, name) else { return false };
    let conditions = queue["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let says = |one: &Value| {
        one["type"] == "Active" && one["status"] == "False" && one["reason"] == "Terminating"
    };
    queue["metadata"]["deletionTimestamp"].is_string() && conditions.iter().any(says)
}

fn patch(cluster: &ControlPlane, name: &str, finalizers: &Value) {
    let body = json!({"metadata": {"finalizers": finalizers}}).to_string();
    cluster.kubectl(&["patch", KIND, name, "--type", "merge", "-p", &body]).expect("patched");
}

#[test]
fn a_queue_that_is_deleted_is_charged_until_its_work_has_ended_and_then_goes() {
    let cluster = cluster(&GpuNodes::new("h100", 4));
    cluster.apply(QUEUES).expect("applied");
    let history = cluster.watch_pods().expect("a watch");
    let mut first = cluster.capstan("first", "").expect("started");
    first.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[job("team-a", "a-0"), job("team-a", "a-1")]);
    wait_for(&cluster, "pods", "team a runs", |pods| runs(pods, "a-") == 8);
    wait_for(&cluster, KIND, "both are kept", |queues| {
        ["a", "b"].iter().all(|name| finalizers(queues, name) == json!([IN_USE]))
    });
    patch(&cluster, "a", &json!([IN_USE, HOLD]));

    cluster.kubectl(&["delete", KIND, "a", "--wait=false"]).expect("deleted");
    wait_for(&cluster, KIND, "it says that it is being deleted", |all| terminating(all, "a"));
    let of_b: Vec<Job> = (0..4).map(|at| job("team-b", &format!("b-{at}"))).collect();
    submit(&cluster, &of_b);
    submit(&cluster, &[Job { pods: 1, ..job("team-a", "late") }]);
    wait_for(&cluster, "pods", "team b gets what is left", |pods| runs(pods, "b-") == 8);
    wait_for(&cluster, "workloads.capstan.sh", "who comes late is told why", |all| {
        let late = all.iter().find(|it| name_of(it) == "late");
        let said = late.and_then(|it| it["status"]["reason"].as_str()).unwrap_or_default();
        said.contains("ClusterQueue a is being deleted")
    });

    // Another leader finds the same, with one of its two gone.
    assert_eq!(first.process.end(SOON).expect("it ends"), 0);
    end(&cluster, "team-a", |name| name.starts_with("a-0-"));
    let mut second = cluster.capstan("second", "").expect("started");
    second.wait_until(&cluster, "leading").expect("it leads");
    wait_for(&cluster, "pods", "team b gets what it left", |pods| runs(pods, "b-") == 12);
    let queues = wait_for(&cluster, KIND, "it counts the one that runs still", |queues| {
        named(queues, "a").is_some_and(|queue| queue["status"]["admittedWorkloads"] == 1)
    });
    assert_eq!(finalizers(&queues, "a"), json!([IN_USE, HOLD]), "that one keeps it");

    end(&cluster, "team-a", |name| name.starts_with("a-1-"));
    wait_for(&cluster, "pods", "team b has all", |pods| runs(pods, "b-") == 16);
    wait_for(&cluster, KIND, "nothing of ours keeps it, and others do", |queues| {
        finalizers(queues, "a") == json!([HOLD])
    });
    patch(&cluster, "a", &Value::Null);
    wait_for(&cluster, KIND, "it is gone", |queues| named(queues, "a").is_none());
    judge::never_over(&history, "the cohort", 16, |_| true);

    // One that nobody uses goes at once.
    end(&cluster, "team-b", |_| true);
    wait_for(&cluster, "pods", "nothing runs any more", |pods| runs(pods, "") == 0);
    cluster.kubectl(&["delete", KIND, "b", "--timeout=60s"]).expect("it goes");
}
