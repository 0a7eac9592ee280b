//! Pods that no scheduler of a queue placed: DaemonSets', static ones, those that a kubelet
//! refused. They hold room like others, and are never ours to act on.

use capstan_core::model::input::Stays;

use super::*;

/// A pod of a DaemonSet as its controller makes it: for one node, by affinity, and for the
/// scheduler that its template names.
fn daemon(scheduler: &str) -> Value {
    let mut value = owned(pod_value("d-1", "d1"), "DaemonSet", "d", "u-d");
    let term = json!({ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": ["n"] }] });
    value["spec"] = json!({
        "schedulerName": scheduler,
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution":
            { "nodeSelectorTerms": [term] } } },
        "containers": [{ "resources": { "requests": { "cpu": "500m" } } }],
    });
    value
}

fn applied(live: &mut Live, value: &Value) -> Vec<Input> {
    live.take(Seen::Applied(pod(value.clone())));
    told(live)
}

#[test]
fn a_daemon_pod_holds_room_once_it_stands_on_its_node() {
    let mut live = synced(&Config::default());
    let mut value = daemon("default-scheduler");
    assert!(pods(&applied(&mut live, &value)).is_empty(), "another scheduler binds it");
    value["spec"]["nodeName"] = "n".into();
    let inputs = applied(&mut live, &value);
    let facts = the_pod(&inputs);
    assert_eq!((facts.ours, facts.node.as_deref()), (false, Some("n")));
    assert_eq!(facts.shape.requests.get("cpu"), Some(&500));
    assert_eq!(facts.gang.unknown_owner, None, "nobody reads DaemonSets, nobody waits for one");
}

#[test]
fn a_daemon_pod_that_names_us_is_bound_by_us_to_the_one_node_that_it_wants() {
    let mut live = synced(&Config::default());
    let inputs = applied(&mut live, &daemon("capstan"));
    let facts = the_pod(&inputs);
    assert_eq!((facts.ours, facts.node.as_deref()), (true, None));
    assert!(facts.shape.node_affinity.is_some(), "which node is a rule like any other");
    assert_eq!(facts.gang.unknown_owner, None);
}

/// Until it is bound it keeps nobody away, and labels that it looks at tell no pods apart.
#[test]
fn what_a_pod_of_another_scheduler_looks_at_matters_once_it_is_bound() {
    let mut live = synced(&Config::default());
    let mut ours = pod_value("p", "p1");
    ours["metadata"]["labels"] = json!({ "index": "7" });
    assert_eq!(the_pod(&applied(&mut live, &ours)).shape.kin, None);
    let means = json!({ "matchExpressions": [{ "key": "index", "operator": "Exists" }] });
    let term = json!({ "topologyKey": "zone", "namespaceSelector": {}, "labelSelector": means });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let mut theirs = pod_value("q", "q1");
    theirs["spec"]["schedulerName"] = "default-scheduler".into();
    theirs["spec"]["affinity"] = json!({ "podAntiAffinity": required });
    assert!(pods(&applied(&mut live, &theirs)).is_empty());
    theirs["spec"]["nodeName"] = "n".into();
    let inputs = applied(&mut live, &theirs);
    let kin = |pod: &&PodFacts| &*pod.name == "p" && pod.shape.kin.is_some();
    assert!(pods(&inputs).iter().any(kin), "{inputs:?}");
    // A template makes pods that are not there yet.
    let mut live = synced(&Config::default());
    let mut template = job_value("j", "j1");
    template["spec"]["template"]["spec"] = theirs["spec"].clone();
    live.take(Seen::Applied(job(template)));
    assert_eq!(the_pod(&applied(&mut live, &ours)).shape.kin, None);
}

/// A static pod as a kubelet mirrors it: bound from its first moment, by nobody.
fn mirror() -> Value {
    let mut value = pod_value("etcd-n", "m1");
    value["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "0123abcd",
        "kubernetes.io/config.hash": "0123abcd", "kubernetes.io/config.source": "file" });
    value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "v1", "kind": "Node",
        "name": "n", "uid": "u-n", "controller": true }]);
    value["spec"] = json!({ "nodeName": "n", "schedulerName": "default-scheduler",
        "priority": 2_000_001_000,
        "containers": [{ "resources": { "requests": { "cpu": "100m", "memory": "1Mi" } } }] });
    value
}

#[test]
fn a_static_pod_holds_room_from_its_first_moment_until_it_is_gone() {
    let mut live = synced(&Config::default());
    let inputs = applied(&mut live, &mirror());
    let facts = the_pod(&inputs);
    assert_eq!((facts.ours, facts.node.as_deref()), (false, Some("n")));
    assert_eq!(facts.shape.requests.get("cpu"), Some(&100));
    assert_eq!((facts.gang.unknown_owner.as_deref(), facts.priority), (None, 2_000_001_000));
    assert_eq!(pods(&live.everything(NOW)).len(), 1, "a restart accounts it as well");
    live.take(Seen::Deleted(pod(mirror())));
    assert_eq!(told(&mut live)[0], Input::PodGone("m1".into()));
}

#[test]
fn static_pods_and_those_of_daemon_sets_are_never_stopped_for_others() {
    let stays = |value: &Value| {
        let inputs = applied(&mut synced(&Config::default()), value);
        the_pod(&inputs).stays
    };
    assert_eq!(stays(&mirror()), Some(Stays::Static));
    let mut of_daemons = daemon("capstan");
    assert_eq!(stays(&of_daemons), Some(Stays::Daemon));
    // Whoever makes a pod can write such a kind on it, of a group where nobody makes pods.
    of_daemons["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1".into();
    assert_eq!(stays(&of_daemons), None);
    assert_eq!(stays(&owned(pod_value("p", "p"), "ReplicaSet", "r", "u-r")), None);
}

#[test]
fn a_pod_that_its_kubelet_refused_is_gone() {
    let mut live = synced(&Config::default());
    let mut value = pod_value("p", "p1");
    value["spec"]["nodeName"] = "n".into();
    assert!(!the_pod(&applied(&mut live, &value)).phase.terminal());
    // What a kubelet writes whose own count differs from ours.
    value["status"] = json!({ "phase": "Failed", "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource: cpu" });
    assert_eq!(applied(&mut live, &value)[0], Input::PodGone("p1".into()));
    live.take(Seen::Deleted(pod(value)));
    assert!(told(&mut live).is_empty());
}

#[test]
fn who_asks_for_a_job_of_another_scheduler_is_told_whose_it_is() {
    let mut live = synced(&Config::default());
    let mut value = job_value("train", "j1");
    live.take(Seen::Applied(job(value.clone())));
    assert_eq!(live.theirs("ns", "train"), None, "it is ours");
    value["spec"]["template"]["spec"]["schedulerName"] = "default-scheduler".into();
    live.take(Seen::Applied(job(value)));
    let told = live.theirs("ns", "train").expect("theirs").told("ns", "train", "capstan");
    assert_eq!(
        told,
        "Job train in namespace ns is no workload of ours: its pods name schedulerName: \
         default-scheduler; made anew with schedulerName: capstan in the spec of its pods, it is \
         one"
    );
    assert_eq!(live.theirs("ns", "other"), None, "there is none of that name");
}

#[test]
fn who_asks_for_a_pod_of_another_scheduler_is_told_whose_it_is() {
    let mut live = synced(&Config::default());
    let mut value = pod_value("p", "p1");
    assert!(pods(&applied(&mut live, &daemon("volcano"))).is_empty(), "the engine knows it not");
    let want = "Pod d-1 in namespace ns is no pod of ours: it names schedulerName: volcano; made \
                anew with schedulerName: capstan in its spec, it is one";
    for of_pod in [true, false] {
        assert_eq!(live.says_whose(of_pod, "ns", "d-1").as_deref(), Some(want));
        assert_eq!(live.says_whose(of_pod, "ns", "p"), None, "there is none");
        assert_eq!(live.says_whose(of_pod, "other", "d-1"), None, "in that namespace");
    }
    value["spec"]["schedulerName"] = "capstan".into();
    applied(&mut live, &value);
    assert_eq!(live.says_whose(true, "ns", "p"), None, "it is ours");
}
