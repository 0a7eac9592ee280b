//! Pods that others put on nodes without asking: a DaemonSet's, which kube-scheduler binds, and
//! one that a kubelet made of a file. What they hold is nobody else's.

use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{GpuNodes, Options, name_of};
use serde_json::{Value, json};

use crate::judge;
use crate::scene::{cluster_with, create, running, wait_for};

/// How long nothing may happen.
const STILL: Duration = Duration::from_secs(3);
/// GPUs of a node.
const GPUS: i64 = 8;

fn container(gpus: i64) -> Value {
    let amounts = json!({"nvidia.com/gpu": gpus, "cpu": "1"});
    json!({"name": "c", "image": "example/main", "resources": {"limits": amounts}})
}

/// A pod of Capstan's.
fn ours(name: &str, gpus: i64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "capstan", "containers": [container(gpus)]},
    })
}

/// Two GPUs of one node for an agent.
fn daemons(node: &str) -> Value {
    let labels = json!({"app": "agent"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "containers": [container(2)],
                },
            },
        },
    })
}

/// What a kubelet shows of a pod that it has from a file: bound from the first moment on.
fn mirror(node: &str) -> Value {
    let hash = "3a1f0c9b7d5e4f2a8b6c1d0e9f8a7b6c";
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("static-{node}"),
            "namespace": "default",
            "annotations": {
                "kubernetes.io/config.hash": hash,
                "kubernetes.io/config.mirror": hash,
                "kubernetes.io/config.seen": "2026-01-01T00:00:00Z",
                "kubernetes.io/config.source": "file",
            },
        },
        "spec": {
            "nodeName": node,
            "containers": [container(3)],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
    })
}

/// Which node a pod is on.
fn node_of<'a>(pods: &'a [Value], name: &str) -> Option<&'a str> {
    pods.iter().find(|pod| name_of(pod) == name)?["spec"]["nodeName"].as_str()
}

/// What a waiting pod says.
fn waits(pods: &[Value], name: &str) -> String {
    let pod = pods.iter().find(|pod| name_of(pod) == name);
    let conditions = pod.and_then(|pod| pod["status"]["conditions"].as_array());
    let mut scheduled = conditions.into_iter().flatten();
    let scheduled = scheduled.find(|it| it["type"] == "PodScheduled" && it["status"] == "False");
    scheduled.and_then(|it| it["message"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn what_daemons_and_static_pods_hold_is_free_once_they_are_gone() {
    let cluster = cluster_with(Options::full(), &GpuNodes::new("h100", 2));
    let history = cluster.watch_pods().expect("a watch");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    create(&cluster, vec![daemons("h100-0"), mirror("h100-1")]);
    wait_for(&cluster, "pods", "both run", |pods| running(pods, |_| true) == 2);

    // Eight would be free on each node without them; beside them are six and five.
    create(&cluster, vec![ours("whole-0", 8), ours("whole-1", 8)]);
    wait_for(&cluster, "pods", "both wait and say why", |pods| {
        ["whole-0", "whole-1"].iter().all(|name| waits(pods, name).contains("0/2 nodes"))
    });
    create(&cluster, vec![ours("beside", 6)]);
    let pods =
        wait_for(&cluster, "pods", "six find room", |pods| node_of(pods, "beside").is_some());
    assert_eq!(node_of(&pods, "beside"), Some("h100-0"), "where six are free, and not five");
    cluster.kubectl(&["delete", "pod", "beside"]).expect("deleted");
    thread::sleep(STILL);
    let pods = cluster.list("pods").expect("pods");
    let placed = ["whole-0", "whole-1"].map(|name| node_of(&pods, name));
    assert_eq!(placed, [None, None]);

    let bound = |what: &str, count: usize| {
        let pods = wait_for(&cluster, "pods", what, |pods| {
            running(pods, |name| name.starts_with("whole-")) == count
        });
        let nodes = ["whole-0", "whole-1"].map(|name| node_of(&pods, name).map(str::to_owned));
        let mut nodes: Vec<String> = nodes.into_iter().flatten().collect();
        nodes.sort();
        nodes
    };
    cluster.kubectl(&["delete", "daemonset", "agent"]).expect("deleted");
    assert_eq!(bound("one has the agent's node", 1), ["h100-0"]);
    thread::sleep(STILL);
    let pods = cluster.list("pods").expect("pods");
    assert_eq!(running(&pods, |name| name.starts_with("whole-")), 1, "the other waits");
    cluster.kubectl(&["delete", "pod", "static-h100-1"]).expect("deleted");
    assert_eq!(bound("the other has the other node", 2), ["h100-0", "h100-1"]);
    judge::binds_are_sound(&history, GPUS);
}
