//! Jobs whose pods follow each other, some at a time, as the Job controller makes them: between two
//! of them nobody else gets what they hold.

use capstan_tests::cluster::GpuNodes;
use serde_json::{Value, json};

use crate::scene::{Job, led, running, submit, wait_for};

fn ended(pods: &[Value], name: &str) -> usize {
    let of = |pod: &&Value| pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == name;
    pods.iter().filter(of).filter(|pod| pod["status"]["phase"] == "Succeeded").count()
}

/// One at a time, and all that the queue has at once, while another Job waits for the same.
#[test]
fn a_job_keeps_what_it_holds_until_its_last_pod_has_ended() {
    let (cluster, _capstan) = led(&GpuNodes::new("h100", 1));
    for (at_once, all) in [(1, 4), (8, 24)] {
        let quota = json!([{"op": "replace", "value": at_once,
            "path": "/spec/resourceGroups/0/flavors/0/resources/2/nominalQuota"}]);
        let patch = ["patch", "cq", "gpus", "--type", "json", "-p", &quota.to_string()];
        cluster.kubectl(&patch).expect("patched");
        let (waves, rival) = (format!("waves-{at_once}"), format!("rival-{at_once}"));
        let of = |name: &str, runs_for| Job {
            queue: Some("gpus"),
            runs_for: Some(runs_for),
            ..Job::of("default", name, at_once)
        };
        let mut job = of(&waves, "2s").manifest();
        job["spec"]["completions"] = json!(all);
        cluster.kubectl_with(&["create", "-f", "-"], &job.to_string()).expect("created");
        let runs = |pods: &[Value], name: &str| running(pods, |pod| pod.starts_with(name));
        let first = format!("the first {at_once} run");
        wait_for(&cluster, "pods", &first, |pods| runs(pods, &waves) == at_once as usize);
        submit(&cluster, &[of(&rival, "1s")]);
        let after = format!("the other runs after {all}");
        let pods =
            wait_for(&cluster, "pods", &after, |pods| runs(pods, &rival) + ended(pods, &rival) > 0);
        assert_eq!(ended(&pods, &waves), all, "the other begins once all have ended");
        wait_for(&cluster, "pods", "the other ends", |pods| {
            ended(pods, &rival) == at_once as usize
        });
    }
}
