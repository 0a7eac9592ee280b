//! Reserved starts, as `kubectl` shows them: who waits for all GPUs is told when it starts, who
//! would be in its way then waits too, and who ends before that does not.

use std::time::Duration;

use capstan_tests::cluster::{ControlPlane, GpuNodes, eventually, name_of};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::scene::{Job, SOON, led, running, wait_for};

const WORKLOADS: &str = "workloads.capstan.sh";

/// A Job that declares how long it runs. Who comes later stands behind those before, and the server
/// knows when anybody came to the second.
fn make(cluster: &ControlPlane, name: &str, pods: u32, runs: &str) {
    std::thread::sleep(Duration::from_millis(1_100));
    let mut job = Job { queue: Some("gpus"), ..Job::of("default", name, pods) }.manifest();
    job["metadata"]["annotations"] = json!({"capstan.sh/expected-runtime": runs});
    cluster.kubectl_with(&["create", "-f", "-"], &job.to_string()).expect("created");
}

fn named<'a>(all: &'a [Value], name: &str) -> Option<&'a Value> {
    all.iter().find(|it| name_of(it) == name)
}

fn seconds(at: &Value) -> Option<i64> {
    at.as_str()?.parse().ok().map(|at: Timestamp| at.as_second())
}

/// The reason and message of what a Workload waits for.
fn waits(all: &[Value], name: &str) -> Option<(String, String)> {
    let conditions = named(all, name)?["status"]["conditions"].as_array()?;
    let quota = conditions.iter().find(|it| it["type"] == "QuotaReserved")?;
    let text = |key: &str| quota[key].as_str().unwrap_or_default().to_owned();
    (quota["status"] == "False").then(|| (text("reason"), text("message")))
}

#[test]
fn who_needs_everything_has_its_start_reserved() {
    let (cluster, capstan) = led(&GpuNodes::new("h100", 1));
    let runs = |pods: &[Value], name: &str| running(pods, |pod| pod.starts_with(name));
    make(&cluster, "runs", 4, "1h");
    let pods = wait_for(&cluster, "pods", "the first runs", |pods| runs(pods, "runs-") == 4);
    let began = pods.iter().filter_map(|pod| seconds(&pod["status"]["startTime"])).max();
    let began = began.expect("it runs since");

    make(&cluster, "big", 8, "1h");
    let server = capstan.url();
    let start = eventually("its start is reserved", SOON, || {
        let words = ["explain", "workload/big", "--server", &server, "--output", "json"];
        let (_, said, errors) = cluster.capstan_says(&words).map_err(|e| e.to_string())?;
        let explained: Value =
            serde_json::from_str(&said).map_err(|e| format!("{e}: {said}{errors}"))?;
        seconds(&explained["reservedStart"]).ok_or(said)
    });
    let start = start.expect("reserved");
    let late = start - began - 3_600;
    assert!((-5..=60).contains(&late), "{late} s after who runs should have ended");

    // Two hours would be in its way, half an hour is not.
    make(&cluster, "long", 4, "2h");
    let held = |all: &[Value]| {
        waits(all, "long").is_some_and(|(reason, message)| {
            reason == "HeldForReservation" && message.contains("would delay default/big")
        })
    };
    wait_for(&cluster, WORKLOADS, "the long one is held", held);
    make(&cluster, "short", 4, "30m");
    wait_for(&cluster, "pods", "the short one runs", |pods| runs(pods, "short-") == 4);
    assert_eq!(runs(&cluster.list("pods").expect("pods"), "long-"), 0);

    // Both who run are gone: the one that was first starts, and only then the held one could.
    for job in ["runs", "short"] {
        cluster.kubectl(&["delete", "job", job, "--wait=false"]).expect("deleted");
    }
    wait_for(&cluster, "pods", "the big one runs", |pods| runs(pods, "big-") == 8);
    let all = cluster.list(WORKLOADS).expect("workloads");
    assert!(waits(&all, "long").is_some(), "it still waits: {:?}", named(&all, "long"));
    cluster.kubectl(&["delete", "job", "big", "--wait=false"]).expect("deleted");
    wait_for(&cluster, "pods", "the long one runs", |pods| runs(pods, "long-") == 4);
    let mut capstan = capstan;
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}
