//! A gang that stays in part: it is stopped whole, without failing its Job, and runs again.

use capstan_tests::cluster::{GpuNodes, is_true, name_of};
use serde_json::{Value, json};

use crate::scene::{Job, cluster, names, running, wait_for};

/// Members of the gang.
const SIZE: usize = 8;

#[test]
fn a_gang_that_stays_in_part_is_suspended_and_comes_back_whole() {
    let cluster = cluster(&GpuNodes::new("h100", 1));
    let config = "waitForPodsReady: {recoveryTimeout: 5s, requeuingStrategy: \
                  {backoffBaseSeconds: 1}}\n";
    let mut capstan = cluster.capstan("capstan-0", config).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut job = Job::of("default", "gang", SIZE as u32).manifest();
    job["spec"]["backoffLimit"] = json!(3);
    cluster.kubectl_with(&["create", "-f", "-"], &job.to_string()).expect("created");
    let all_run = |what: &str| {
        wait_for(&cluster, "pods", what, |pods| running(pods, |_| true) == SIZE);
    };
    all_run("it runs");

    // A member fails, and no node takes the one in its stead.
    cluster.kubectl(&["cordon", "h100-0"]).expect("cordoned");
    let first = names(&cluster.list("pods").expect("pods"), |_| true).remove(0);
    let patch = json!({"status": {"phase": "Failed"}}).to_string();
    let words = ["patch", "pod", &first, "--subresource=status", "--type=merge", "-p", &patch];
    cluster.kubectl(&words).expect("it died");
    let evicted = |workload: &Value| is_true(workload, "Evicted").map(str::to_owned);
    let told = wait_for(&cluster, "workloads.capstan.sh", "it is evicted", |all| {
        all.iter().any(|it| name_of(it) == "gang" && evicted(it).is_some())
    });
    assert_eq!(evicted(&told[0]).as_deref(), Some("PodsReadyTimeout"));
    let conditions = told[0]["status"]["conditions"].as_array().expect("conditions");
    let said = conditions.iter().find(|it| it["type"] == "Evicted").expect("just seen");
    let message = said["message"].as_str().expect("words");
    let begins = "only 7 of the 8 members that it needs had a place for 5s; ";
    assert!(message.starts_with(begins), "{message}");
    wait_for(&cluster, "jobs", "its Job is suspended", |jobs| {
        jobs.iter().all(|job| is_true(job, "Suspended").is_some())
    });
    wait_for(&cluster, "pods", "no member is left", |pods| running(pods, |_| true) == 0);

    cluster.kubectl(&["uncordon", "h100-0"]).expect("uncordoned");
    all_run("it runs again");
    let jobs = cluster.list("jobs").expect("jobs");
    assert_eq!(names(&jobs, |job| is_true(job, "Failed").is_some()), [""; 0]);
    wait_for(&cluster, "workloads.capstan.sh", "nothing is said of it any more", |all| {
        all.iter().all(|it| evicted(it).is_none() && it["status"]["state"] == "Running")
    });
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}
