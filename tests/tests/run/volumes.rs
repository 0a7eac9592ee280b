//! Claims that wait for their pods, on a real API server with its real volume controller.

use capstan_tests::cluster::{GpuNodes, name_of};
use serde_json::{Value, json};

use crate::scene::{cluster, create, running, wait_for};

/// A class of local volumes, and one such volume on each of the nodes.
fn local_volumes(nodes: &[&str]) -> Vec<Value> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let on = |node: &&str| {
        let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": format!("v-{node}")},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/mnt"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        })
    };
    std::iter::once(class).chain(nodes.iter().map(on)).collect()
}

/// A member of a gang with a claim of its own.
fn member(gang: &str, at: usize) -> [Value; 2] {
    let name = format!("{gang}-{at}");
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
        },
    });
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"capstan.sh/gang": gang},
            "annotations": {"capstan.sh/min-member": "2"},
        },
        "spec": {
            "schedulerName": "capstan",
            "containers": [{"name": "c", "image": "example/main"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
        },
    });
    [claim, pod]
}

fn says(pod: &Value, words: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.any(|it| it["message"].as_str().is_some_and(|text| text.contains(words)))
}

/// Two volumes, two gangs of two: the first gets both, through the cluster's own controller, and
/// the second begins when there are two more.
#[test]
fn a_gang_is_bound_with_its_local_volumes_or_waits_whole() {
    let cluster = cluster(&GpuNodes::new("disk", 4));
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    create(&cluster, local_volumes(&["disk-0", "disk-1"]));
    create(&cluster, (0..2).flat_map(|at| member("first", at)).collect());
    let pods =
        wait_for(&cluster, "pods", "the first gang runs", |pods| running(pods, |_| true) == 2);
    for pod in &pods {
        let claim = format!("persistentvolumeclaims/{}", name_of(pod));
        let claim = cluster.kubectl(&["get", &claim, "-o", "json"]).expect("there");
        let claim: Value = serde_json::from_str(&claim).expect("JSON");
        let node = pod["spec"]["nodeName"].as_str().expect("bound");
        assert_eq!(claim["status"]["phase"], "Bound");
        assert_eq!(claim["spec"]["volumeName"], format!("v-{node}"), "the volume of its node");
    }
    create(&cluster, (0..2).flat_map(|at| member("second", at)).collect());
    let second = |pod: &&Value| name_of(pod).starts_with("second");
    wait_for(&cluster, "pods", "the second gang says why it waits", |pods| {
        let waits = |pod: &&Value| says(pod, "didn't find available persistent volumes to bind");
        pods.iter().filter(second).filter(waits).count() == 2
    });
    create(&cluster, local_volumes(&["disk-2", "disk-3"]).split_off(1));
    wait_for(&cluster, "pods", "the second gang runs, too", |pods| running(pods, |_| true) == 4);
}
