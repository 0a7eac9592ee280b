//! RayClusters: what their pods say of roles and replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{Replica, Roles, Text};

use super::groups::{gang, owner_named};
use super::*;
use crate::gangs::kinds::Kind as Of;

/// A cluster of a head and of replicas of four hosts, of which one must run if Ray scales it.
fn cluster(scales: bool, least: Option<&str>) -> Object {
    let template = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
    let workers = json!({ "groupName": "tpu", "replicas": 3, "minReplicas": 1, "maxReplicas": 2,
        "numOfHosts": 4, "template": template });
    let spec = json!({ "enableInTreeAutoscaling": scales,
        "headGroupSpec": { "template": template }, "workerGroupSpecs": [workers] });
    let mut cluster = gang(Of::RayCluster, "r", spec, json!({}));
    if let (Object::Gang(_, value), Some(least)) = (&mut cluster, least) {
        value["metadata"]["annotations"] = json!({ "capstan.sh/min-member": least });
    }
    cluster
}

fn of_cluster(name: &str, labels: Value) -> Object {
    let mut value = pod_value(name, name);
    value["metadata"]["labels"] = labels;
    value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "ray.io/v1",
        "kind": "RayCluster", "name": "r", "uid": "u-r", "controller": true }]);
    pod(value)
}

/// What a pod with these labels says of its role.
fn says(cluster: Object, labels: Value) -> Option<Arc<Roles>> {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(cluster));
    live.take(Seen::Applied(of_cluster("p", labels)));
    let inputs = told(&mut live);
    the_pod(&inputs).gang.roles.clone()
}

fn minimums(of: &[(&str, u32)]) -> Arc<BTreeMap<Text, u32>> {
    Arc::new(of.iter().map(|(role, least)| ((*role).into(), *least)).collect())
}

#[test]
fn pods_of_a_cluster_say_their_role_and_their_replica() {
    let head = json!({ "ray.io/node-type": "head", "ray.io/group": "headgroup" });
    let worker = json!({ "ray.io/node-type": "worker", "ray.io/group": "tpu" });
    let mut named = worker.clone();
    named["ray.io/worker-group-replica-name"] = "tpu-x".into();
    let least = minimums(&[("head", 1), ("tpu", 4)]);
    let replica = |name: Option<&str>| Some(Replica { name: name.map(Text::from), size: 4 });
    for (labels, own, replica) in [
        (&head, "head", None),
        (&worker, "tpu", replica(None)),
        (&named, "tpu", replica(Some("tpu-x"))),
    ] {
        let wanted = Roles { own: Some(own.into()), least: least.clone(), replica };
        assert_eq!(says(cluster(true, None), labels.clone()).as_deref(), Some(&wanted));
    }
    // All of them must run: nobody can be left out.
    assert_eq!(says(cluster(false, None), worker.clone()), None);
    // Not all that is asked for can be of each role, but the head is.
    let few = says(cluster(true, Some("3")), worker).expect("roles");
    assert_eq!(few.least, minimums(&[("head", 1)]));
    assert_eq!(says(cluster(true, None), json!({})), None, "nobody knows which it is");
}

#[test]
fn in_a_group_the_number_of_that_counts_and_no_role() {
    for (of, label, annotation) in [
        (Of::PluginsGroup, json!({ "scheduling.x-k8s.io/pod-group": "g" }), json!({})),
        (Of::VolcanoGroup, json!({}), json!({ "scheduling.k8s.io/group-name": "g" })),
    ] {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(cluster(true, None)));
        live.take(Seen::Applied(gang(of, "g", json!({ "minMember": 6 }), json!({}))));
        let mut labels = label;
        labels["ray.io/node-type"] = "worker".into();
        labels["ray.io/group"] = "tpu".into();
        let mut worker = pod_value("p", "p");
        worker["metadata"]["labels"] = labels;
        worker["metadata"]["annotations"] = annotation;
        worker["metadata"]["ownerReferences"] = json!([{ "apiVersion": "ray.io/v1",
            "kind": "RayCluster", "name": "r", "uid": "u-r", "controller": true }]);
        live.take(Seen::Applied(pod(worker)));
        let inputs = told(&mut live);
        let gang = &the_pod(&inputs).gang;
        assert_eq!((gang.min_member, &gang.roles), (Some(6), &None), "{of:?}");
    }
}

#[test]
fn a_cluster_has_as_many_replicas_as_its_bounds_allow() {
    for (scales, least) in [(true, 5), (false, 9)] {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(cluster(scales, None)));
        let inputs = told(&mut live);
        let owner = owner_named(&inputs, "r").expect("told");
        assert_eq!((owner.min_member, owner.left), (least, Some(9)));
        let workers = owner.pod_sets[1].roles.as_ref();
        assert_eq!(workers.is_some(), scales);
        let replica = Replica { name: None, size: 4 };
        assert!(workers.is_none_or(|roles| roles.replica.as_ref() == Some(&replica)));
    }
}
