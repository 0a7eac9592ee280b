//! Kinds of other projects: each owner is preempted, and is suspended and resumed; each PodGroup is
//! told how far its gang is.

use capstan::gangs::kinds::{Kind, Row, TABLE};
use capstan_tests::cluster::{ControlPlane, eventually};
use serde_json::{Value, json};

use crate::scene::{Pods, holds, run, wait};
use crate::setup::{SOON, read};

/// Owners at a time: with a GPU each they all stand on the open node.
const AT_ONCE: usize = 5;

/// Owners whose pods leave for a more important one and that go on once that is gone.
pub fn suspended_and_resumed(cluster: &ControlPlane) {
    let rows: Vec<&Row> = TABLE.iter().filter(|row| row.suspend.is_some()).collect();
    for rows in rows.chunks(AT_ONCE) {
        rows.iter().for_each(|row| owner_with_a_pod(cluster, row));
        run(cluster, "other-", rows.len());
        let taker = Pods { name: "taker", queue: "open", class: "high", gpus: 8, runs_for: None };
        cluster.apply(&taker.bare().to_string()).expect("applied");
        rows.iter().for_each(|row| is_suspended(cluster, row, true));
        // Nobody here does what their controllers would.
        for row in rows {
            let pod = format!("{}-0", name(row));
            cluster.kubectl(&["delete", "pod", &pod, "--namespace", "team"]).expect("deleted");
        }
        run(cluster, "taker", 1);
        cluster.kubectl(&["delete", "pod", "taker", "--namespace", "team"]).expect("deleted");
        rows.iter().for_each(|row| is_suspended(cluster, row, false));
        for row in rows {
            let kind = format!("{}.{}", row.plural, row.group);
            cluster.kubectl(&["delete", &kind, &name(row), "-n", "team"]).expect("deleted");
        }
        cluster.kubectl(&["delete", "jobsets", "--all", "-n", "team"]).expect("deleted");
        wait(cluster, "workloads.capstan.sh", "", "none is left", <[Value]>::is_empty);
    }
}

/// PodGroups whose status says that their gangs run.
pub fn told_how_far_they_are(cluster: &ControlPlane) {
    for row in TABLE.iter().filter(|row| row.kind.is_group()) {
        let kind = format!("{}.{}", row.plural, row.group);
        let group = json!({
            "apiVersion": row.api_version(),
            "kind": row.name,
            "metadata": {"name": "told", "namespace": "team"},
            "spec": match row.kind {
                // Of the priority of its pod: Kubernetes gives a group without a class priority 0.
                Kind::UpstreamGroup => json!({
                    "schedulingPolicy": {"gang": {"minCount": 1}},
                    "priorityClassName": "low",
                }),
                _ => json!({"minMember": 1}),
            },
        });
        cluster.apply(&group.to_string()).expect("applied");
        let pod = Pods { name: "told-0", queue: "open", class: "low", gpus: 1, runs_for: None };
        let mut pod = pod.bare();
        match row.kind {
            Kind::UpstreamGroup => pod["spec"]["schedulingGroup"] = json!({"podGroupName": "told"}),
            Kind::PluginsGroup => {
                pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("told");
            }
            _ => pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!("told"),
        }
        cluster.apply(&pod.to_string()).expect("applied");
        run(cluster, "told-0", 1);
        wait(cluster, &kind, "told", "said to run", |all| match row.kind {
            Kind::UpstreamGroup => all.iter().any(|it| holds(it, "PodGroupInitiallyScheduled")),
            _ => all.iter().any(|it| it["status"]["phase"] == "Running"),
        });
        cluster.kubectl(&["delete", "pod", "told-0", "--namespace", "team"]).expect("deleted");
        cluster.kubectl(&["delete", &kind, "told", "--namespace", "team"]).expect("deleted");
        wait(cluster, "workloads.capstan.sh", "", "none is left", <[Value]>::is_empty);
    }
}

fn name(row: &Row) -> String {
    format!("other-{}", row.name.to_lowercase())
}

/// Makes an owner in a queue, and the one pod that its controller would make.
fn owner_with_a_pod(cluster: &ControlPlane, row: &Row) {
    let name = name(row);
    let pod = format!("{name}-0");
    let pod = Pods { name: &pod, queue: "open", class: "low", gpus: 1, runs_for: None };
    let mut pod = pod.bare();
    let labels = pod["metadata"]["labels"].take();
    let template = json!({"spec": pod["spec"]});
    let mut uid = applied(cluster, row, &labels, spec(row.kind, &template), &Value::Null);
    let mut owner = row;
    if row.kind == Kind::TrainJob {
        owner = Kind::JobSet.row();
        let above = reference(row, &name, &uid);
        uid = applied_as(cluster, owner, &name, &labels, spec(owner.kind, &template), &above);
    }
    pod["metadata"]["ownerReferences"] = json!([reference(owner, &name, &uid)]);
    cluster.apply(&pod.to_string()).expect("applied");
}

fn reference(row: &Row, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": row.api_version(),
        "kind": row.name,
        "name": name,
        "uid": uid,
        "controller": true,
    })
}

fn applied(
    cluster: &ControlPlane,
    row: &Row,
    labels: &Value,
    spec: Value,
    above: &Value,
) -> String {
    applied_as(cluster, row, &name(row), labels, spec, above)
}

/// Makes an owner; its uid comes back.
fn applied_as(
    cluster: &ControlPlane,
    row: &Row,
    name: &str,
    labels: &Value,
    spec: Value,
    above: &Value,
) -> String {
    let above: Vec<&Value> = Some(above).filter(|it| !it.is_null()).into_iter().collect();
    let object = json!({
        "apiVersion": row.api_version(),
        "kind": row.name,
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": labels,
            "ownerReferences": above,
        },
        "spec": spec,
    });
    cluster.apply(&object.to_string()).expect("applied");
    let found = read(cluster, &[&format!("{}.{}", row.plural, row.group), name, "-n", "team"]);
    found["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// A spec that makes one pod.
fn spec(kind: Kind, template: &Value) -> Value {
    let role = json!({"Worker": {"replicas": 1, "template": template}});
    let head = json!({"headGroupSpec": {"template": template}});
    match kind {
        Kind::TrainJob => json!({}),
        Kind::JobSet => json!({"replicatedJobs": [{
            "name": "w",
            "template": {"spec": {"template": template}},
        }]}),
        Kind::PyTorchJob => json!({"pytorchReplicaSpecs": role}),
        Kind::TfJob => json!({"tfReplicaSpecs": role}),
        Kind::XgBoostJob => json!({"xgbReplicaSpecs": role}),
        Kind::PaddleJob => json!({"paddleReplicaSpecs": role}),
        Kind::JaxJob => json!({"jaxReplicaSpecs": role}),
        Kind::MpiJob => json!({"mpiReplicaSpecs": role}),
        // What KubeRay's own submitter asks, cpu and memory, the queue has no quota for.
        Kind::RayJob => json!({"rayClusterSpec": head, "submissionMode": "HTTPMode"}),
        Kind::RayCluster => head,
        other => panic!("{other:?} cannot be suspended"),
    }
}

/// Waits until an owner is suspended, or goes on.
fn is_suspended(cluster: &ControlPlane, row: &Row, wanted: bool) {
    let pointer = format!("/{}", row.suspend.expect("it has the field").replace('.', "/"));
    let kind = format!("{}.{}", row.plural, row.group);
    let waited = eventually(&format!("{} is suspended: {wanted}", row.name), SOON, || {
        let found = read(cluster, &[&kind, &name(row), "-n", "team"]);
        match found.pointer(&pointer) == Some(&json!(wanted)) {
            true => Ok(()),
            false => Err(found.to_string()),
        }
    });
    waited.expect("it is");
}
