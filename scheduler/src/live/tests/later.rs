//! What pods say of those that are made after them, where classes, ranges and claims change.

use serde_json::json;

use super::super::{Object, Seen};
use super::groups::{gang, of_pod};
use super::{meta, pod, pod_value, synced, told};
use crate::api::devices::DeviceObject;
use crate::config::Config;
use crate::gangs::kinds::Kind as Of;

/// A leader with a node, whose workers are still to be made of such a template.
fn led(worker: serde_json::Value) -> super::super::Live {
    let lws = "leaderworkerset.sigs.k8s.io";
    let templates = json!({ "size": 2, "workerTemplate": { "spec": worker } });
    let spec = json!({ "startupPolicy": "LeaderReady", "leaderWorkerTemplate": templates });
    let mut leader = pod_value("p", "p");
    leader["metadata"]["labels"] =
        json!({ (format!("{lws}/name")): "l", (format!("{lws}/group-index")): "0" });
    leader["metadata"]["annotations"] = json!({ (format!("{lws}/size")): "2" });
    leader["spec"]["nodeName"] = "n".into();
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(gang(Of::LeaderWorkerSet, "l", spec, json!({}))));
    live.take(Seen::Applied(pod(leader)));
    live
}

/// How much of something each worker will ask, as the leader is told now.
fn asked(live: &mut super::super::Live, of: &str) -> Option<i64> {
    let known = of_pod(live, "p").to_come.expect("it has workers");
    known.sets[0].shape.requests.get(of).copied()
}

#[test]
fn a_leader_is_told_again_when_a_class_of_its_workers_changes() {
    let container = json!({ "resources": { "requests": { "cpu": 1 } } });
    let mut live = led(json!({ "schedulerName": "capstan", "runtimeClassName": "kata",
        "containers": [container] }));
    assert_eq!(asked(&mut live, "cpu"), Some(1_000));
    let class = json!({ "metadata": meta("kata", "k1"), "overhead": { "podFixed": { "cpu": 2 } } });
    let class = Object::RuntimeClass(serde_json::from_value(class).expect("class"));
    live.take(Seen::Applied(class));
    assert_eq!(asked(&mut live, "cpu"), Some(3_000));
}

#[test]
fn a_leader_is_told_again_when_a_range_fills_in_what_its_workers_ask() {
    let mut live = led(json!({ "schedulerName": "capstan", "containers": [{}] }));
    assert_eq!(asked(&mut live, "cpu"), None);
    let mut meta = meta("l", "l1");
    meta["namespace"] = "ns".into();
    let limits = json!([{ "type": "Container", "defaultRequest": { "cpu": 2 } }]);
    let range = json!({ "metadata": meta, "spec": { "limits": limits } });
    live.take(Seen::Applied(Object::LimitRange(serde_json::from_value(range).expect("range"))));
    assert_eq!(asked(&mut live, "cpu"), Some(2_000));
}

#[test]
fn a_leader_is_told_again_when_what_its_workers_claim_is_there() {
    let claims = json!([{ "name": "g", "resourceClaimTemplateName": "t" }]);
    let mut live = led(json!({ "schedulerName": "capstan", "containers": [{}],
        "resourceClaims": claims }));
    told(&mut live);
    let mut meta = meta("t", "t1");
    meta["namespace"] = "ns".into();
    let request = json!({ "name": "r", "exactly": { "deviceClassName": "gpu" } });
    let spec = json!({ "spec": { "devices": { "requests": [request] } } });
    let template = serde_json::from_value(json!({ "metadata": meta, "spec": spec }));
    let template = DeviceObject::Template(template.expect("template"));
    live.take(Seen::Applied(Object::Devices(Box::new(template))));
    assert!(of_pod(&mut live, "p").to_come.is_some(), "it is told");
}

/// Workers of a subgroup want each other near, by a label that only they have.
#[test]
fn a_leader_knows_which_of_its_workers_are_in_which_subgroup() {
    let key = |name: &str| format!("leaderworkerset.sigs.k8s.io/{name}");
    let term = json!({ "topologyKey": "rack", "matchLabelKeys": [key("subgroup-key")],
        "labelSelector": { "matchLabels": { (key("name")): "l" } } });
    let near = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let worker = json!({ "schedulerName": "capstan", "containers": [{}],
        "affinity": { "podAffinity": near } });
    let templates = json!({ "size": 4, "subGroupPolicy": { "subGroupSize": 2 },
        "workerTemplate": { "spec": worker } });
    let spec = json!({ "startupPolicy": "LeaderReady", "leaderWorkerTemplate": templates });
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(gang(Of::LeaderWorkerSet, "l", spec, json!({}))));
    let member = |name: &str, subgroup: (&str, &str), leader: Option<&str>| {
        let mut value = pod_value(name, name);
        value["metadata"]["labels"] = json!({ (key("name")): "l", (key("group-index")): "0",
            (key("subgroup-index")): subgroup.0, (key("subgroup-key")): subgroup.1 });
        value["metadata"]["annotations"] = json!({ (key("size")): "4" });
        if let Some(leader) = leader {
            value["metadata"]["annotations"][key("leader-name")] = leader.into();
        }
        Seen::Applied(pod(value))
    };
    let first = ("0", "e5a323eb5d37091aeed3d75788936c2f4bb1829b");
    let second = ("1", "765c674832dae084019e8fa184720da14b46ba57");
    live.take(member("p", first, None));
    let known = of_pod(&mut live, "p").to_come.expect("it has workers");
    let sets = known.sets.iter().map(|set| (&*set.name, set.before, set.count));
    assert_eq!(sets.collect::<Vec<_>>(), [("worker-0", 1, 1), ("worker-1", 2, 2)]);
    for (set, (_, subgroup)) in known.sets.iter().zip([first, second]) {
        let seen = set.shape.kin.as_ref().expect("others of it look for that");
        assert_eq!(seen.labels.get(&*key("subgroup-key")).map(|key| &**key), Some(subgroup));
        let wants = set.shape.neighbours.as_ref().expect("terms");
        let selects = wants.affinity[0].peers.labels.as_ref().expect("a selector");
        assert_eq!(&*selects[1].values[0], subgroup);
    }
    live.take(member("p-3", second, Some("p")));
    let known = of_pod(&mut live, "p-3").to_come.expect("it is in a group");
    assert_eq!((known.own.as_deref(), known.sets.len()), (Some("worker-1"), 0));
}
