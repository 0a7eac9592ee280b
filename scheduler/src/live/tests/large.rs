//! Objects as large as an API server takes: nobody may wait for minutes because of one.

use std::collections::BTreeMap;

use capstan_core::model::input::Held;

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

/// Where not all of them are planned for nobody waits for the others.
#[test]
fn of_many_tasks_that_come_later_the_first_are_planned_for() {
    let task = |at: u32| {
        let after = if at > 0 { vec!["t0"] } else { Vec::new() };
        json!({ "name": format!("t{at}"), "replicas": 1, "dependsOn": { "name": after },
            "template": { "spec": { "containers": [{}] } } })
    };
    for (tasks, later, least) in [(10, 9, 10), (100, 64, 65)] {
        let mut live = synced(&Config::default());
        let group = json!({ "minMember": tasks });
        live.take(Seen::Applied(gang(Of::VolcanoGroup, "v", group, json!({}))));
        let all: Vec<Value> = (0..tasks).map(task).collect();
        let spec = json!({ "schedulerName": "capstan", "tasks": all });
        live.take(Seen::Applied(gang(Of::VolcanoJob, "v", spec, json!({}))));
        let mut value = pod_value("p", "p");
        value["metadata"]["annotations"] =
            json!({ "scheduling.k8s.io/group-name": "v", "volcano.sh/task-spec": "t0" });
        value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job", "name": "v", "uid": "u-v", "controller": true }]);
        live.take(Seen::Applied(pod(value)));
        let known = of_pod(&mut live, "p").to_come.expect("it knows of them");
        assert_eq!((known.sets.len(), known.least), (later, Some(least)), "{tasks}");
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

/// A Job of as many pods as one may run, the so manieth of its namespace.
fn huge(namespace: &str, at: usize) -> Object {
    let mut value = job_value(&format!("j{at}"), &format!("{namespace}-{at}"));
    value["metadata"]["namespace"] = namespace.into();
    value["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
    value["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:0{at}Z").into();
    value["spec"]["suspend"] = true.into();
    value["spec"]["parallelism"] = json!(150_000);
    job(value)
}

/// Owners among inputs, by uid: how many pods they ask for, and whether they are held.
fn asked(inputs: &[Input]) -> BTreeMap<String, (u32, Option<Held>)> {
    let owner = |input: &Input| match input {
        Input::Owner(owner) => Some((owner.uid.to_string(), (owner.pods(), owner.held.clone()))),
        _ => None,
    };
    inputs.iter().filter_map(owner).collect()
}

/// Six of them are as many as places are planned for. Whichever comes first, the last made waits.
#[test]
fn who_asks_for_too_many_pods_waits_until_others_of_its_namespace_are_gone() {
    let mut live = synced(&Config::default());
    let beyond = Some(Held::Crowded { before: 900_000, most: 1_000_000 });
    for at in (1..7).rev() {
        live.take(Seen::Applied(huge("ns", at)));
    }
    live.take(Seen::Applied(huge("other", 0)));
    let first = asked(&told(&mut live));
    assert_eq!(first.len(), 7);
    assert!(first.values().all(|asked| *asked == (150_000, None)), "{first:?}");
    live.take(Seen::Applied(huge("ns", 0)));
    let oldest = asked(&told(&mut live));
    let whole = (150_000, None);
    let both = [("ns-0", &whole), ("ns-6", &(1, beyond.clone()))];
    let want: BTreeMap<String, (u32, Option<Held>)> =
        both.into_iter().map(|(uid, asked)| (uid.to_owned(), asked.clone())).collect();
    assert_eq!(oldest, want, "the oldest comes before the others");
    let all = asked(&live.everything(NOW));
    assert_eq!((all.len(), &all["ns-6"], &all["ns-5"]), (8, &(1, beyond), &whole));
    live.take(Seen::Deleted(huge("ns", 3)));
    assert_eq!(asked(&told(&mut live)), BTreeMap::from([("ns-6".to_owned(), whole)]));
}
