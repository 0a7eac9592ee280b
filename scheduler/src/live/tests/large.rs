//! Objects as large as an API server takes: nobody may wait for minutes because of one.

use super::groups::{gang, of_pod, owner_named};
use super::*;
use crate::gangs::kinds::Kind as Of;

/// Each of so many tasks waits for the next one.
#[test]
fn a_job_may_have_tens_of_thousands_of_tasks_that_wait_for_each_other() {
    const TASKS: u32 = 20_000;
    let task = |at: u32| {
        let after = if at + 1 < TASKS { vec![format!("t{}", at + 1)] } else { Vec::new() };
        json!({ "name": format!("t{at}"), "replicas": 1, "dependsOn": { "name": after } })
    };
    let tasks: Vec<Value> = (0..TASKS).map(task).collect();
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(gang(Of::VolcanoGroup, "v", json!({ "minMember": TASKS }), json!({}))));
    let spec = json!({ "schedulerName": "capstan", "tasks": tasks });
    live.take(Seen::Applied(gang(Of::VolcanoJob, "v", spec, json!({}))));
    let last = format!("t{}", TASKS - 1);
    for (task, least) in [(last.as_str(), 1), ("t0", TASKS)] {
        let mut value = pod_value(task, task);
        value["metadata"]["annotations"] =
            json!({ "scheduling.k8s.io/group-name": "v", "volcano.sh/task-spec": task });
        value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job", "name": "v", "uid": "u-v", "controller": true }]);
        live.take(Seen::Applied(pod(value)));
        assert_eq!(of_pod(&mut live, task).min_member, Some(least), "{task}");
    }
}

#[test]
fn an_owner_may_have_thousands_of_pod_sets_of_one_name() {
    const SETS: usize = 3_000;
    let jobs = |at: usize| {
        let pods = json!({
            "metadata": { "annotations": {
                "kueue.x-k8s.io/podset-group-name": "all",
                "kueue.x-k8s.io/podset-required-topology": "rack",
            } },
            "spec": { "schedulerName": "capstan", "containers": [{}] },
        });
        json!({ "name": format!("w{at}"), "replicas": 1,
            "template": { "spec": { "parallelism": 1, "template": pods } } })
    };
    let jobs: Vec<Value> = (0..SETS).map(jobs).collect();
    let mut live = synced(&Config::default());
    let spec = json!({ "suspend": false, "replicatedJobs": jobs });
    live.take(Seen::Applied(gang(Of::JobSet, "s", spec, json!({}))));
    let inputs = told(&mut live);
    let owner = owner_named(&inputs, "s").expect("told");
    assert_eq!(owner.pod_sets.len(), SETS);
    assert!(owner.pod_sets.iter().all(|set| set.shape.levels.is_none()));
    assert_eq!(owner.wishes.topology.required.as_deref(), Some("rack"), "what all of them ask");
}
