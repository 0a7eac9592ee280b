//! Tolerations of a flavor, added to pods; and what cannot be prepared yet.

use super::*;
use capstan_core::model::input::{TaintEffect, Toleration, TolerationOperator};

fn spot() -> Toleration {
    Toleration {
        key: "spot".into(),
        operator: TolerationOperator::Equal,
        value: "true".into(),
        effect: Some(TaintEffect::NoExecute),
    }
}

fn any() -> Toleration {
    Toleration {
        key: "any".into(),
        operator: TolerationOperator::Exists,
        value: "".into(),
        effect: None,
    }
}

fn add() -> Action {
    Action::AddTolerations { pod: pod_ref("p"), tolerations: vec![spot(), any()] }
}

fn tolerating(tolerations: Value) -> Value {
    let mut pod = pod("p");
    pod["spec"]["tolerations"] = tolerations;
    pod
}

#[tokio::test(start_paused = true)]
async fn what_the_pod_has_stays_and_what_it_lacks_is_appended() {
    let ready = json!({ "key": "ready", "operator": "Exists", "tolerationSeconds": 300 });
    let limited = json!({ "key": "any", "operator": "Exists", "tolerationSeconds": 9 });
    let has = json!({ "key": "spot", "value": "true", "effect": "NoExecute" });
    let server = Server::with(&[tolerating(json!([ready, limited, has]))]);
    assert_eq!(carry(&server, add()).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET p", "PATCH p"]);
    let found = server.get("pods/p").expect("there");
    let appended = json!({ "key": "any", "operator": "Exists" });
    assert_eq!(found["spec"]["tolerations"], json!([ready, limited, has, appended]));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_appended_twice() {
    use Fault::*;
    for fault in [LostAfter, Despite(500), LostBefore, Instead(409, 0)] {
        let server = Server::with(&[pod("p")]).faults(&[None, fault]);
        assert_eq!(carry(&server, add()).await, EffectResult::Done, "{fault:?}");
        let found = server.get("pods/p").expect("there");
        assert_eq!(found["spec"]["tolerations"].as_array().map(Vec::len), Some(2), "{fault:?}");
        assert_eq!(carry(&server, add()).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log().last().map(String::as_str), Some("GET p"), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_meanwhile_is_read_again() {
    let server = Server::with(&[pod("p")]);
    let later = server.clone();
    let ready = json!({ "key": "ready", "operator": "Exists" });
    let changed = tolerating(json!([ready]));
    server.before(1, move || later.put(changed));
    assert_eq!(carry(&server, add()).await, EffectResult::Done);
    let found = server.get("pods/p").expect("there");
    assert_eq!(found["spec"]["tolerations"].as_array().map(Vec::len), Some(3));
}

#[tokio::test(start_paused = true)]
async fn who_is_gone_or_going_tolerates_nothing_more() {
    assert_eq!(carry(&Server::default(), add()).await, EffectResult::Gone);
    let mut ending = pod("p");
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let result = carry(&Server::with(&[ending]), add()).await;
    assert_eq!(words(&result), ("conflict", "the pod is ending"));
    let server = Server::with(&[pod("p")]).faults(&[Fault::None, Fault::Instead(422, 0)]);
    assert_eq!(words(&carry(&server, add()).await), ("refused", "a fault (422)"));
}
