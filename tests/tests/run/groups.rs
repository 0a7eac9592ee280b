//! Gangs of Kubernetes itself and of other projects, on an API server that serves them.

use capstan_tests::cluster::{ControlPlane, GpuNodes, Options, name_of};
use serde_json::{Value, json};

use crate::scene::{Job, cluster_with, names, running, wait_for};

/// Members of a gang, one GPU each.
const SIZE: usize = 4;

fn cluster() -> ControlPlane {
    let parts =
        Options { controller_manager: true, kwok: true, upstream_gangs: true, ..Options::bare() };
    cluster_with(parts, &GpuNodes::new("h100", 1))
}

/// The pods of a gang, each changed in this way.
fn members(name: &str, change: impl Fn(&mut Value)) -> Vec<Value> {
    let template = Job::new("default", name).manifest()["spec"]["template"].take();
    let member = |at: usize| {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("{name}-{at}"), "namespace": "default"},
            "spec": template["spec"],
        });
        change(&mut pod);
        pod
    };
    (0..SIZE).map(member).collect()
}

fn create(cluster: &ControlPlane, items: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
}

/// Waits until a workload says this.
fn waits(cluster: &ControlPlane, name: &str, why: &str) {
    wait_for(cluster, "workloads.capstan.sh", why, |all| {
        let own = all.iter().find(|it| name_of(it) == name);
        own.is_some_and(|it| it["status"].to_string().contains(why))
    });
    let pods = cluster.list("pods").expect("pods");
    let bound = names(&pods, |pod| pod["spec"]["nodeName"].is_string());
    assert!(!bound.iter().any(|pod| pod.starts_with(name)), "{bound:?}");
}

fn run(cluster: &ControlPlane, name: &str, count: usize) {
    wait_for(cluster, "pods", &format!("{count} of {name} run"), |pods| {
        running(pods, |pod| pod.starts_with(name)) == count
    });
}

#[test]
fn a_gang_of_kubernetes_itself_waits_for_its_group_and_starts_whole() {
    let cluster = cluster();
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut pods = members("train", |pod| {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    });
    let last = pods.pop().expect("several");
    create(&cluster, &pods);
    waits(&cluster, "train", "waits for PodGroup train (scheduling.k8s.io), which does not exist");
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
    });
    create(&cluster, &[group]);
    waits(&cluster, "train", "3 of 4 pods");
    create(&cluster, &[last]);
    run(&cluster, "train", SIZE);
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

#[test]
fn kinds_of_other_projects_are_read_once_they_are_served() {
    let cluster = cluster();
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads, whatever is not served");
    create(
        &cluster,
        &members("plugins", |pod| {
            pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "plugins"});
        }),
    );
    let why = "waits for PodGroup plugins (scheduling.x-k8s.io), which does not exist";
    waits(&cluster, "plugins", why);
    cluster.install_crds_of_others().expect("installed");
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "plugins", "namespace": "default"},
        "spec": {"minMember": SIZE},
    });
    create(&cluster, &[group]);
    run(&cluster, "plugins", SIZE);
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}
