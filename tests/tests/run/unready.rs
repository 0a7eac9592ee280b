//! Work whose pods never start: it gives its quota back, queues again later each time, and is held
//! in the end until people say otherwise.

use capstan_tests::cluster::{GpuNodes, is_true};
use serde_json::{Value, json};

use crate::scene::{Job, SOON, cluster, names, running, submit, wait_for};

/// The pause is long enough to look at what waits it out on a slow machine.
const CONFIG: &str = "waitForPodsReady: {timeout: 3s, requeuingStrategy: {backoffBaseSeconds: 8, \
                      backoffLimitCount: 1}}\n";

/// The condition of this type of a Workload: status, reason and message.
fn condition(workload: &Value, of: &str) -> Option<(String, String, String)> {
    let all = workload["status"]["conditions"].as_array()?;
    let found = all.iter().find(|it| it["type"] == of)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

#[test]
fn what_never_starts_is_stopped_tried_again_and_then_held() {
    let cluster = cluster(&GpuNodes::new("h100", 1));
    cluster.apply(include_str!("one-queue.yaml")).expect("applied");
    let mut capstan = cluster.capstan("first", CONFIG).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut broken = Job { queue: Some("gpus"), ..Job::of("default", "broken", 8) }.manifest();
    let template = &mut broken["spec"]["template"]["metadata"];
    template["annotations"]["test.capstan.sh/never-starts"] = json!("true");
    cluster.kubectl_with(&["create", "-f", "-"], &broken.to_string()).expect("created");

    let stopped = wait_for(&cluster, "workloads.capstan.sh", "it is stopped", |all| {
        let evicted = all.first().and_then(|it| condition(it, "Evicted"));
        let count = |it: &Value| it["status"]["requeueState"]["count"] == 1;
        evicted.is_some_and(|it| it.1 == "PodsReadyTimeout") && all.iter().all(count)
    });
    let message = condition(&stopped[0], "Evicted").expect("just seen").2;
    assert!(message.starts_with("none of the 8 pods that it needs became ready in "), "{message}");
    wait_for(&cluster, "workloads.capstan.sh", "it queues again later", |all| {
        condition(&all[0], "Requeued").is_some_and(|it| it.1 == "PodsReadyTimeout")
    });
    let jobs = wait_for(&cluster, "jobs", "its Job is suspended", |jobs| {
        jobs[0]["spec"]["suspend"] == true
    });
    let note = jobs[0]["metadata"]["annotations"]["capstan.sh/requeued"].as_str().expect("a note");
    assert!(note.contains(r#""unready":1"#), "{note}");

    // Another replica knows that it was stopped once already, and holds it after the second time.
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
    let mut second = cluster.capstan("second", CONFIG).expect("started");
    second.wait_until(&cluster, "leading").expect("it leads");
    let held = wait_for(&cluster, "workloads.capstan.sh", "it is held", |all| {
        let evicted = condition(&all[0], "Evicted");
        all[0]["spec"]["active"] == false
            && evicted.is_some_and(|it| it.1 == "DeactivatedDueToRequeuingLimitExceeded")
    });
    let message = condition(&held[0], "Evicted").expect("just seen").2;
    assert!(message.contains("backoffLimitCount"), "{message}");
    wait_for(&cluster, "jobs", "its Job is suspended", |jobs| jobs[0]["spec"]["suspend"] == true);
    let others = Job { queue: Some("gpus"), ..Job::of("default", "fine", 8) };
    submit(&cluster, &[others]);
    wait_for(&cluster, "pods", "others run in its place", |pods| {
        running(pods, |name| name.starts_with("fine-")) == 8
    });

    // Somebody mends it and says so: it begins anew.
    cluster.kubectl(&["delete", "job", "fine"]).expect("deleted");
    let patch = json!({"spec": {"active": true}}).to_string();
    cluster.kubectl(&["patch", "wl", "broken", "--type", "merge", "-p", &patch]).expect("patched");
    wait_for(&cluster, "jobs", "it is resumed", |jobs| jobs[0]["spec"]["suspend"] == false);
    // One more stop would be one too many if those before it still counted.
    wait_for(&cluster, "jobs", "it is stopped once more, and not held", |jobs| {
        let note = &jobs[0]["metadata"]["annotations"]["capstan.sh/requeued"];
        note.as_str().is_some_and(|note| note.contains(r#""unready":1"#))
    });
    let failed = |job: &Value| is_true(job, "Failed").is_some();
    assert_eq!(names(&cluster.list("jobs").expect("jobs"), failed), [""; 0]);
}
