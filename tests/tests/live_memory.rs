//! What the live cluster costs in memory: bound pods of large Jobs, as watches show them.
//!
//! One test in a process of its own, so that resident memory is its alone. The bound is that of
//! the live part by itself; facts are dropped as soon as they are told, so that texts which the
//! engine would share are counted here.

use capstan::config::Config;
use capstan::live::{Kind, Live, Object, Seen};
use capstan_core::time::Time;
use serde_json::json;

/// Members of one Job.
const MEMBERS: u64 = 1_000;
/// Jobs before the first look, so that what a process needs anyway is there.
const WARM: u64 = 10;
/// Jobs between the two looks.
const JOBS: u64 = 50;
/// Bytes for a pod, at most.
const MOST: u64 = 800;

/// Bytes of a page where the kernel counts in pages, as on every machine that runs this.
const PAGE: u64 = 4_096;

#[test]
fn a_pod_of_a_large_job_costs_less_than_800_bytes() {
    let mut live = Live::new(&Config::default());
    for job in 0..WARM {
        add(&mut live, job);
    }
    let before = resident();
    for job in WARM..WARM + JOBS {
        add(&mut live, job);
    }
    let each = (resident() - before) / (JOBS * MEMBERS);
    assert_eq!(live.count(Kind::Pod) as u64, (WARM + JOBS) * MEMBERS);
    assert!(each <= MOST, "{each} bytes for a pod");
    assert!(each >= 100, "{each} bytes for a pod: nothing was measured");
}

fn add(live: &mut Live, job: u64) {
    live.take(Seen::Applied(self::job(job)));
    for member in 0..MEMBERS {
        // Each is seen as it is made, bound and started.
        for (node, phase) in [(false, "Pending"), (true, "Pending"), (true, "Running")] {
            live.take(Seen::Applied(pod(job, member, node, phase)));
        }
    }
    let inputs = live.drain(Time(1)).inputs;
    assert!(inputs.len() as u64 > MEMBERS, "{} facts", inputs.len());
}

fn uid(job: u64, member: u64) -> String {
    format!("{job:08x}-1b2c-4d3e-8f4a-{member:012x}")
}

fn spec() -> serde_json::Value {
    let amounts = json!({ "cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8" });
    let resources = json!({ "requests": amounts, "limits": amounts });
    json!({
        "schedulerName": "capstan",
        "priority": 10,
        "priorityClassName": "training",
        "preemptionPolicy": "PreemptLowerPriority",
        "nodeSelector": { "accelerator": "h100" },
        "tolerations": [{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }],
        "containers": [{ "name": "main", "resources": resources }],
    })
}

fn job(job: u64) -> Object {
    let value = json!({
        "metadata": {
            "name": format!("train-{job}"),
            "namespace": "team-a",
            "uid": uid(job, 0xffff),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "capstan.sh/queue": "main" },
        },
        "spec": {
            "parallelism": MEMBERS,
            "completions": MEMBERS,
            "completionMode": "Indexed",
            "template": { "spec": spec() },
        },
    });
    Object::Job(serde_json::from_value(value).expect("a Job"))
}

fn pod(job: u64, member: u64, node: bool, phase: &str) -> Object {
    let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "controller": true,
        "name": format!("train-{job}"), "uid": uid(job, 0xffff) });
    let mut value = json!({
        "metadata": {
            "name": format!("train-{job}-{member}-x7k2p"),
            "namespace": "team-a",
            "uid": uid(job, member),
            "creationTimestamp": "2026-01-01T00:00:01Z",
            "labels": { "capstan.sh/queue": "main",
                "batch.kubernetes.io/job-completion-index": member.to_string() },
            "ownerReferences": [owner],
        },
        "spec": spec(),
        "status": { "phase": phase },
    });
    if node {
        value["spec"]["nodeName"] = format!("node-{}", member / 8).into();
        value["metadata"]["annotations"] = json!({
            "capstan.sh/workload": format!("job-train-{job}"),
            "capstan.sh/flavors": r#"{"cpu":"h100","memory":"h100","nvidia.com/gpu":"h100"}"#,
            "capstan.sh/admitted-at": "2026-01-01T00:00:02Z",
            "capstan.sh/price": "98.32",
        });
    }
    Object::Pod(serde_json::from_value(value).expect("a pod"))
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc/self/statm");
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("pages") * PAGE
}
