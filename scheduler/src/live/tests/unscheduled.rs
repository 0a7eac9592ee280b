//! What pods that wait say of that themselves.

use super::*;
use crate::live::Unscheduled;

fn waits(reason: &str, node: Option<&str>) -> Value {
    let mut value = pod_value("p", "u");
    let says = |of: &str| {
        json!({ "type": of, "status": "False", "reason": reason,
        "message": "0/3 nodes are available: 3 Insufficient cpu." })
    };
    value["status"] = json!({ "conditions": [says("Ready"), says("PodScheduled")],
        "nominatedNodeName": node });
    value
}

#[test]
fn of_which_version_a_pod_is_seen_that_waits() {
    let mut live = synced(&Config::default());
    let mut value = pod_value("p", "u");
    live.take(Seen::Applied(pod(value.clone())));
    assert_eq!(live.generation(&"u".into()), None, "older API servers count none");
    for generation in [1, 2] {
        value["metadata"]["generation"] = json!(generation);
        live.take(Seen::Applied(pod(value.clone())));
        assert_eq!(live.generation(&"u".into()), Some(generation));
    }
    value["spec"]["nodeName"] = json!("n");
    live.take(Seen::Applied(pod(value)));
    assert_eq!(live.generation(&"u".into()), None, "it waits no more");
}

#[test]
fn what_a_pod_says_while_it_waits_is_known_and_no_fact() {
    let mut live = synced(&Config::default());
    let shown = |reason: &str, node: Option<&str>| Unscheduled {
        reason: reason.into(),
        message: "0/3 nodes are available: 3 Insufficient cpu.".into(),
        node: node.map(Into::into),
    };
    live.take(Seen::Applied(pod(pod_value("p", "u"))));
    assert_eq!(live.unscheduled(&"u".into()), None);
    told(&mut live);
    live.take(Seen::Applied(pod(waits("Unschedulable", None))));
    assert_eq!(live.unscheduled(&"u".into()), Some(&shown("Unschedulable", None)));
    assert_eq!(told(&mut live), [], "we wrote that ourselves");
    live.take(Seen::Applied(pod(waits("WaitingForQuota", Some("n")))));
    assert_eq!(live.unscheduled(&"u".into()), Some(&shown("WaitingForQuota", Some("n"))));
    // It has a node, says nothing more, is another scheduler's, or is gone.
    let mut bound = waits("Unschedulable", None);
    bound["spec"]["nodeName"] = json!("n");
    let mut silent = waits("Unschedulable", None);
    silent["status"]["conditions"][1]["status"] = json!("True");
    let mut theirs = waits("Unschedulable", None);
    theirs["spec"]["schedulerName"] = json!("another");
    let shows = |value: Value| Seen::Applied(pod(value));
    let gone = Seen::Deleted(pod(waits("Unschedulable", None)));
    for seen in [shows(bound), shows(silent), shows(theirs), gone] {
        live.take(shows(waits("Unschedulable", None)));
        assert!(live.unscheduled(&"u".into()).is_some());
        live.take(seen);
        assert_eq!(live.unscheduled(&"u".into()), None);
    }
}
