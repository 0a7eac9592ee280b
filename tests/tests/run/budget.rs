//! A budget that runs out, as `kubectl` shows it: what was spent, who waits and until when, over an
//! end of Capstan, and what more of it does.

use capstan_tests::cluster::{ControlPlane, GpuNodes, name_of};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::scene::{Job, SOON, led, running, submit, wait_for};

const QUEUES: &str = "clusterqueues.capstan.sh";
const WORKLOADS: &str = "workloads.capstan.sh";
/// How far what is written may be from what times of pods say, in seconds: both are whole ones, and
/// the API server has a clock of its own.
const WITHIN: i64 = 3;

fn condition(object: &Value, of: &str) -> Option<(String, String, String)> {
    let all = object["status"]["conditions"].as_array()?;
    let found = all.iter().find(|it| it["type"] == of)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

fn named<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects.iter().find(|it| name_of(it) == name)
}

fn may_spend(cluster: &ControlPlane, usd: i64) {
    let budget = json!({"spec": {"budget": {"usd": usd, "period": "Month"}}}).to_string();
    let words = ["patch", QUEUES, "gpus", "--type", "merge", "-p", &budget];
    cluster.kubectl(&words).expect("patched");
}

fn seconds(at: &Value) -> i64 {
    let at: Timestamp = at.as_str().expect("a time").parse().expect("a time");
    at.as_second()
}

/// Of the queue's status: GPU-seconds, millionths of a dollar, and as of when.
fn spent(queue: &Value) -> (i64, i64, i64) {
    let budget = &queue["status"]["budget"];
    let number = |key: &str| budget[key].as_i64().expect("a number");
    (number("spentGpuSeconds"), number("spentMicroUsd"), seconds(&budget["asOf"]))
}

/// GPU-seconds of all pods that are there until a time, by when they were scheduled.
fn used(cluster: &ControlPlane, until: i64) -> i64 {
    let pods = cluster.list("pods").expect("pods");
    let since = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().expect("conditions");
        let is_bound = |it: &&Value| it["type"] == "PodScheduled" && it["status"] == "True";
        let bound = conditions.iter().find(is_bound);
        bound.map_or(0, |bound| (until - seconds(&bound["lastTransitionTime"])).max(0))
    };
    pods.iter().map(since).sum()
}

#[test]
fn a_budget_runs_out_and_says_so_over_a_restart() {
    let (cluster, mut capstan) = led(&GpuNodes::new("h100", 1));
    // Half a dollar a second for half of its eight GPUs.
    cluster.kubectl(&["annotate", "nodes", "--all", "capstan.sh/price=3600"]).expect("priced");
    may_spend(&cluster, 5);
    let job = |name: &str, pods| Job { queue: Some("gpus"), ..Job::of("default", name, pods) };
    submit(&cluster, &[job("first", 4)]);
    let runs = |pods: &[Value], name: &str| running(pods, |pod| pod.starts_with(name));
    wait_for(&cluster, "pods", "the first runs", |pods| runs(pods, "first-") == 4);

    let queues = wait_for(&cluster, QUEUES, "the budget is spent", |queues| {
        let within = condition(&queues[0], "WithinBudget");
        within.is_some_and(|it| (&*it.0, &*it.1) == ("False", "BudgetExhausted"))
    });
    let budget = &queues[0]["status"]["budget"];
    let words = budget["spent"].as_str().expect("words");
    assert!(words.starts_with("$5.") && words.ends_with("/$5.00"), "{budget}");
    assert_eq!(budget["exhausted"], true);
    let message = condition(&queues[0], "WithinBudget").expect("said").2;
    assert!(message.starts_with("budget of $5.00 a month is spent; admits again "), "{message}");
    let (gpu_seconds, micro_usd, as_of) = spent(&queues[0]);
    assert!(micro_usd >= 5_000_000, "{budget}");
    assert!((used(&cluster, as_of) - gpu_seconds).abs() <= 4 * WITHIN, "{budget}");
    let wide = cluster.kubectl(&["get", "cq", "-o", "wide"]).expect("a table");
    assert!(wide.contains("BUDGET") && wide.contains(words), "{wide}");

    submit(&cluster, &[job("second", 2)]);
    let waits = |all: &[Value]| {
        let second = named(all, "second").and_then(|it| condition(it, "QuotaReserved"));
        second.is_some_and(|it| (&*it.0, &*it.1) == ("False", "BudgetExhausted"))
    };
    let all = wait_for(&cluster, WORKLOADS, "the second waits for it", waits);
    let until = budget["periodEnd"].as_str().expect("a time");
    let second = named(&all, "second").expect("there");
    let message = condition(second, "QuotaReserved").expect("said").2;
    assert!(message.starts_with("budget of gpus, $5.00 a month, is spent ($"), "{message}");
    assert!(message.ends_with(&format!("admits again {until}")), "{message}");
    let pods = cluster.list("pods").expect("pods");
    assert_eq!((runs(&pods, "first-"), runs(&pods, "second-")), (4, 0), "what runs goes on");

    // Another replica knows what was spent, and goes on from there.
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
    let mut second = cluster.capstan("second", "").expect("started");
    second.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[job("third", 1)]);
    wait_for(&cluster, WORKLOADS, "the third waits for it, too", |all| {
        let third = named(all, "third").and_then(|it| condition(it, "QuotaReserved"));
        waits(all) && third.is_some_and(|it| it.1 == "BudgetExhausted")
    });
    may_spend(&cluster, 1_000);
    wait_for(&cluster, "pods", "all run", |pods| {
        (runs(pods, "first-"), runs(pods, "second-"), runs(pods, "third-")) == (4, 2, 1)
    });
    let queues = wait_for(&cluster, QUEUES, "there is some left", |queues| {
        let left = condition(&queues[0], "WithinBudget").is_some_and(|it| it.0 == "True");
        left && queues[0]["status"]["budget"]["exhausted"] == false
    });
    let (after, _, until) = spent(&queues[0]);
    assert!(after > gpu_seconds && until > as_of, "{} and then {after}", gpu_seconds);
    let counted = used(&cluster, until);
    assert!((counted - after).abs() <= 7 * WITHIN, "{counted} by pods, {after} by the status");
    assert!(second.process.runs(), "{}", second.process.trouble("ended"));
}
