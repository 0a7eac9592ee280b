//! What people see of work that waits: its position and forecast in its status, and numbers in
//! `/metrics`, as a user with `kubectl` and a Prometheus would.

use std::time::Duration;

use capstan_tests::cluster::{Capstan, ControlPlane, GpuNodes, eventually, name_of};
use serde_json::{Value, json};

use crate::scene::{Job, SOON, cluster, running, wait_for, wait_within};

/// Places are renewed and written every half a minute: a new one may take both.
const IN_TIME: Duration = Duration::from_secs(180);

/// All series there are.
const CONFIG: &str = "metrics: {enableClusterQueueResources: true, localQueueMetrics: {}}\n";
/// One queue for all.
const QUEUE: &str = include_str!("one-queue.yaml");

/// Jobs of eight pods, made one after the other: their places are by when they came, and the server
/// knows that to the second.
fn line_up(cluster: &ControlPlane, names: &[&str]) {
    for name in names {
        let mut job = Job { queue: Some("gpus"), ..Job::of("default", name, 8) }.manifest();
        job["metadata"]["annotations"] = json!({"capstan.sh/expected-runtime": "2h"});
        std::thread::sleep(Duration::from_millis(1_100));
        cluster.kubectl_with(&["create", "-f", "-"], &job.to_string()).expect("created");
        wait_for(cluster, "workloads.capstan.sh", "it is seen", |all| {
            all.iter().any(|it| name_of(it) == *name && it["status"]["state"].is_string())
        });
    }
}

/// A number of a Workload's status.
fn position(all: &[Value], name: &str) -> Option<i64> {
    all.iter().find(|it| name_of(it) == name)?["status"]["queuePosition"].as_i64()
}

/// Waits until `/metrics` has all these lines.
fn shows(cluster: &ControlPlane, capstan: &Capstan, lines: &[&str]) {
    eventually("the numbers are shown", SOON, || {
        let text = capstan.get(cluster, "/metrics").map_err(|error| format!("{error:?}"))?;
        match lines.iter().find(|line| !text.lines().any(|found| found == **line)) {
            None => Ok(()),
            Some(line) => Err(format!("no {line} in\n{text}")),
        }
    })
    .expect("shown");
}

/// What runs says where and how long it had waited, what waits neither.
fn reads_easily(printed: &str) {
    let head = printed.lines().next().expect("a head");
    let cell = |name: &str, column: &str| -> String {
        let row = printed.lines().find(|line| line.split_whitespace().next() == Some(name));
        let at = head.find(column).unwrap_or_else(|| panic!("no {column} in\n{printed}"));
        let rest = row.and_then(|row| row.get(at..)).unwrap_or_default();
        rest.split("  ").next().unwrap_or_default().trim().to_owned()
    };
    assert_eq!((cell("runs", "NODES"), cell("first", "NODES")), ("h100-0".into(), "".into()));
    let waited = cell("runs", "WAITED");
    let seconds = waited.strip_suffix('s').and_then(|digits| digits.parse::<u32>().ok());
    assert!(seconds.is_some(), "{waited:?} in\n{printed}");
    assert_eq!(cell("first", "WAITED"), "", "{printed}");
}

#[test]
fn who_waits_is_told_its_place_and_when_it_may_start() {
    let cluster = cluster(&GpuNodes::new("h100", 1));
    cluster.apply(QUEUE).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", CONFIG).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    line_up(&cluster, &["runs", "first", "second"]);
    let in_line = |all: &[Value]| {
        (position(all, "first"), position(all, "second")) == (Some(1), Some(2))
            && all.iter().filter(|it| it["status"]["forecastStart"].is_string()).count() == 2
    };
    let workloads = "workloads.capstan.sh";
    let all = wait_within(IN_TIME, &cluster, workloads, "both stand in line", in_line);
    assert_eq!(position(&all, "runs"), None);
    let of = |name: &str| &all.iter().find(|it| name_of(it) == name).expect("there")["status"];
    assert_eq!(of("first")["forecastAssumption"], "if default/runs ends as declared");
    // It starts once the one before it, which is to run for as long, has ended too.
    assert_eq!(
        of("second")["forecastAssumption"],
        "if 2 workloads end as declared, default/first last, after 1 other of its queue unless it \
         fits before"
    );
    let printed = cluster.kubectl(&["get", "workloads.capstan.sh", "-o", "wide"]).expect("printed");
    assert!(printed.contains("POSITION") && printed.contains("FORECAST"), "{printed}");
    reads_easily(&printed);
    let server = capstan.url();
    let words = ["explain", "workload/second", "--server", &server, "--output", "json"];
    let (code, explained, errors) = cluster.capstan_says(&words).expect("it runs");
    assert_eq!(code, 1, "it waits: {explained}{errors}");
    let explained: Value = serde_json::from_str(&explained).expect("JSON");
    assert_eq!(explained["positionInClusterQueue"], 1, "from 0, as Kueue's: {explained}");
    assert_eq!(explained["positionInLocalQueue"], 1);
    assert_eq!(explained["forecast"]["start"], of("second")["forecastStart"]);

    let listed = capstan.get(&cluster, "/debug/pending/localqueue/default/gpus");
    let listed: Value = serde_json::from_str(&listed.expect("answered")).expect("JSON");
    let names = listed["items"].as_array().expect("a list").iter().map(name_of);
    assert_eq!(names.collect::<Vec<_>>(), ["first", "second"]);

    let queue = "cluster_queue=\"gpus\"";
    let local = "name=\"gpus\",namespace=\"default\"";
    let why = "reason=\"NoReservation\",underlying_cause=\"WaitingForCapacity\"";
    let gpus = "flavor=\"h100\",resource=\"nvidia.com/gpu\"";
    let lines = [
        format!("capstan_pending_workloads{{{queue},status=\"inadmissible\"}} 2"),
        format!("capstan_admitted_active_workloads{{{queue}}} 1"),
        format!("capstan_unadmitted_workloads{{{queue},{why}}} 2"),
        format!("capstan_admitted_workloads_total{{{queue},priority_class=\"\"}} 1"),
        format!("capstan_ready_wait_time_seconds_count{{{queue},priority_class=\"\"}} 1"),
        format!("capstan_cluster_queue_resource_usage{{{queue},cohort=\"\",{gpus}}} 8"),
        format!("capstan_cluster_queue_resource_pending{{{queue},resource=\"nvidia.com/gpu\"}} 16"),
        format!("capstan_local_queue_admitted_workloads_total{{{local},priority_class=\"\"}} 1"),
        format!("capstan_local_queue_pending_workloads{{{local},status=\"inadmissible\"}} 2"),
        format!("capstan_local_queue_status{{active=\"True\",{local}}} 1"),
    ];
    shows(&cluster, &capstan, &lines.each_ref().map(String::as_str));

    // The one that runs is deleted: the next starts, and stands in line no more.
    cluster.kubectl(&["delete", "job", "runs", "--wait=false"]).expect("deleted");
    wait_for(&cluster, "pods", "the next runs", |pods| {
        running(pods, |name| name.starts_with("first-")) == 8
    });
    wait_within(IN_TIME, &cluster, workloads, "the last one moves up", |all| {
        (position(all, "first"), position(all, "second")) == (None, Some(1))
    });
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}
