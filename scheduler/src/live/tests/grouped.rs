//! Owners of which some pods are in another gang: the others wait for none of those.

use super::groups::{gang, of_pod};
use super::*;
use crate::gangs::kinds::Kind as Of;

/// The label that names a PodGroup of scheduler-plugins.
const LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// Metadata that puts a pod into a PodGroup, as the one or the other scheduler has it.
fn named(volcano: bool) -> Value {
    match volcano {
        true => json!({ "annotations": { "scheduling.k8s.io/group-name": "g" } }),
        false => json!({ "labels": { LABEL: "g" } }),
    }
}

/// An object with this owner, which is called as it is and has that for its uid.
fn made_by(mut value: Value, (api, kind, name): (&str, &str, &str)) -> Value {
    value["metadata"]["ownerReferences"] = json!([{ "apiVersion": api, "kind": kind,
        "name": name, "uid": format!("u-{name}"), "controller": true }]);
    value
}

/// A pod with these labels beside what its metadata says.
fn labelled(name: &str, metadata: &Value, labels: &[(&str, &str)]) -> Value {
    let mut value = pod_value(name, name);
    let given = metadata.as_object().into_iter().flatten();
    given.for_each(|(key, said)| value["metadata"][key] = said.clone());
    labels.iter().for_each(|(key, said)| value["metadata"]["labels"][*key] = (*said).into());
    value
}

/// A template with such metadata.
fn template(metadata: &Value) -> Value {
    json!({ "metadata": metadata, "spec": { "schedulerName": "capstan", "containers": [{}] } })
}

/// How many the owner of this uid asks for at least, and how many a pod does, as told now.
fn least(live: &mut Live, owner: &str, name: &str) -> (u32, Option<u32>) {
    let inputs = told(live);
    let owners = inputs.iter().find_map(|input| match input {
        Input::Owner(facts) if *facts.uid == *owner => Some(facts.min_member),
        _ => None,
    });
    let pod = pods(&inputs).into_iter().find(|pod| *pod.name == *name).expect("told");
    (owners.expect("told"), pod.gang.min_member)
}

/// The spec of a cluster of a head and a worker.
fn cluster(metadata: &Value) -> Value {
    let workers = json!({ "groupName": "w", "replicas": 1, "minReplicas": 1,
        "template": template(metadata) });
    json!({ "headGroupSpec": { "template": template(metadata) }, "workerGroupSpecs": [workers] })
}

/// A RayJob, its cluster, and what submits it.
fn ray_job(metadata: &Value) -> Vec<Object> {
    let spec = cluster(metadata);
    let job = gang(Of::RayJob, "r", json!({ "rayClusterSpec": spec }), json!({}));
    let made = json!({ "metadata": meta("c", "u-c"), "spec": spec });
    let made = made_by(made, ("ray.io/v1", "RayJob", "r"));
    let submits = made_by(job_value("r", "submits"), ("ray.io/v1", "RayJob", "r"));
    let submitter = owned(pod_value("s", "s"), "Job", "r", "submits");
    let cluster = Object::Gang(Of::RayCluster, Box::new(made));
    vec![job, cluster, self::job(submits), pod(submitter)]
}

/// The head of that cluster, and its worker.
fn nodes(metadata: &Value) -> [Object; 2] {
    [("h", "head", "headgroup"), ("w", "worker", "w")].map(|(name, kind, group)| {
        let labels = [("ray.io/node-type", kind), ("ray.io/group", group)];
        let value = labelled(name, metadata, &labels);
        pod(made_by(value, ("ray.io/v1", "RayCluster", "c")))
    })
}

#[test]
fn what_submits_a_ray_job_waits_for_no_pods_that_are_in_a_group() {
    for volcano in [false, true] {
        let group = if volcano { Of::VolcanoGroup } else { Of::PluginsGroup };
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(group, "g", json!({ "minMember": 2 }), json!({}))));
        ray_job(&json!({})).into_iter().for_each(|it| live.take(Seen::Applied(it)));
        assert_eq!(least(&mut live, "u-r", "s"), (3, Some(2)), "nobody says that they are");
        let [head, worker] = nodes(&named(volcano));
        live.take(Seen::Applied(head.clone()));
        assert_eq!(least(&mut live, "u-r", "s"), (2, Some(1)), "of the worker nothing is known");
        live.take(Seen::Applied(worker.clone()));
        assert_eq!(least(&mut live, "u-r", "s"), (1, Some(1)));
        assert_eq!(of_pod_in(&mut live, "h"), Some(2), "those wait for each other");
        live.take(Seen::Deleted(head));
        live.take(Seen::Deleted(worker));
        assert_eq!(least(&mut live, "u-r", "s"), (3, Some(2)));
        assert!(live.directory.grouped.roles(&"u-r".into()).is_none());
    }
}

/// What a pod waits for, of all that there is.
fn of_pod_in(live: &mut Live, name: &str) -> Option<u32> {
    let inputs = live.everything(NOW);
    let pod = pods(&inputs).into_iter().find(|pod| *pod.name == *name).expect("there");
    pod.gang.min_member
}

/// Pods may be seen before it is known whose they are.
#[test]
fn owners_that_come_after_their_pods_hear_of_the_group_of_those() {
    let mut live = synced(&Config::default());
    nodes(&named(false)).into_iter().for_each(|it| live.take(Seen::Applied(it)));
    told(&mut live);
    ray_job(&json!({})).into_iter().rev().for_each(|it| live.take(Seen::Applied(it)));
    assert_eq!(least(&mut live, "u-r", "s"), (1, Some(1)));
    // Without the cluster between nobody knows whose they are.
    let cluster = ray_job(&json!({})).swap_remove(1);
    live.take(Seen::Deleted(cluster));
    assert_eq!(least(&mut live, "u-r", "s"), (3, Some(2)));
}

#[test]
fn what_submits_a_ray_job_waits_for_none_whose_template_names_a_group() {
    for volcano in [false, true] {
        let mut live = synced(&Config::default());
        ray_job(&named(volcano)).into_iter().for_each(|it| live.take(Seen::Applied(it)));
        assert_eq!(least(&mut live, "u-r", "s"), (1, Some(1)), "{volcano}");
    }
}

/// A cluster that Ray scales may start with one of three workers, and the head, if that is its.
#[test]
fn roles_have_no_minimum_of_a_head_that_is_in_a_group() {
    for (grouped, want, least) in
        [(true, vec![("w", 1)], 1), (false, vec![("head", 1), ("w", 1)], 2)]
    {
        let metadata = if grouped { named(false) } else { json!({}) };
        let mut spec = cluster(&json!({}));
        spec["enableInTreeAutoscaling"] = true.into();
        spec["headGroupSpec"]["template"] = template(&metadata);
        spec["workerGroupSpecs"][0]["replicas"] = 3.into();
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::RayCluster, "c", spec, json!({}))));
        let [_, worker] = nodes(&json!({}));
        live.take(Seen::Applied(worker));
        let told = of_pod(&mut live, "w");
        let roles = told.roles.as_deref().expect("it has minimums");
        let roles: Vec<(&str, u32)> = roles.least.iter().map(|(role, it)| (&**role, *it)).collect();
        assert_eq!((roles, told.min_member), (want, Some(least)));
    }
}

/// A set of two roles of two pods each, the second of which is in a group.
fn half_grouped(suspend: bool, asked: Option<&str>) -> Object {
    let role = |name: &str, metadata: &Value| {
        json!({ "name": name, "template": { "spec": { "parallelism": 2,
            "template": template(metadata) } } })
    };
    let roles = json!([role("a", &json!({})), role("b", &named(false))]);
    let spec = json!({ "suspend": suspend, "replicatedJobs": roles });
    let mut set = gang(Of::JobSet, "s", spec, json!({}));
    if let (Object::Gang(_, value), Some(asked)) = (&mut set, asked) {
        value["metadata"]["annotations"] = json!({ "capstan.sh/min-member": asked });
    }
    set
}

#[test]
fn a_role_of_a_job_set_waits_for_none_whose_template_names_a_group() {
    for (suspend, asked, wanted) in [
        (false, None, 2),
        // What is asked counts all of them.
        (false, Some("3"), 2),
        (false, Some("1"), 1),
        // It starts when there is room for all that it will have.
        (true, None, 4),
    ] {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(half_grouped(suspend, asked)));
        let of_set = made_by(job_value("s-a-0", "a"), ("jobset.x-k8s.io/v1alpha2", "JobSet", "s"));
        live.take(Seen::Applied(job(of_set)));
        let labels = [("jobset.sigs.k8s.io/replicatedjob-name", "a")];
        let value = owned(labelled("p", &json!({}), &labels), "Job", "s-a-0", "a");
        live.take(Seen::Applied(pod(value)));
        let said = format!("{suspend} {asked:?}");
        assert_eq!(least(&mut live, "u-s", "p"), (wanted, Some(wanted)), "{said}");
    }
}

#[test]
fn workers_wait_for_no_master_that_is_in_a_group() {
    for asked in [Value::Null, json!(3)] {
        let role = |pods: u32| json!({ "replicas": pods, "template": template(&json!({})) });
        let mut spec = json!({ "pytorchReplicaSpecs": { "Master": role(1), "Worker": role(2) } });
        spec["runPolicy"] = json!({ "schedulingPolicy": { "minAvailable": asked } });
        let member = |name: &str, role: &str, metadata: &Value| {
            let labels = [("training.kubeflow.org/replica-type", role)];
            let value = labelled(name, metadata, &labels);
            pod(made_by(value, ("kubeflow.org/v1", "PyTorchJob", "t")))
        };
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::PyTorchJob, "t", spec, json!({}))));
        live.take(Seen::Applied(member("p", "worker", &json!({}))));
        assert_eq!(least(&mut live, "u-t", "p"), (3, Some(3)), "{asked}");
        live.take(Seen::Applied(member("m", "master", &named(false))));
        assert_eq!(least(&mut live, "u-t", "p"), (2, Some(2)), "{asked}");
        // Of an owner all of whose roles are in a group none is left to be told from the others.
        live.take(Seen::Applied(member("q", "worker", &named(false))));
        assert_eq!(least(&mut live, "u-t", "p"), (3, Some(3)), "{asked}");
    }
}

#[test]
fn executors_wait_for_no_driver_that_is_in_a_group() {
    let member = |name: &str, role: &str, metadata: &Value| {
        pod(labelled(name, metadata, &[("spark-role", role), ("spark-app-selector", "a")]))
    };
    let asks = json!({ "annotations": { "capstan.sh/min-member": "3" } });
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(member("e", "executor", &asks)));
    assert_eq!(of_pod(&mut live, "e").min_member, Some(3));
    live.take(Seen::Applied(member("d", "driver", &named(false))));
    assert_eq!(of_pod(&mut live, "e").min_member, Some(2));
    live.take(Seen::Deleted(member("d", "driver", &named(false))));
    assert_eq!(of_pod(&mut live, "e").min_member, Some(3));
    live.take(Seen::Deleted(member("e", "executor", &asks)));
    let of = ("spark-app-selector".into(), "ns".into(), "a".into());
    assert!(live.below.of(&of).is_none());
}
