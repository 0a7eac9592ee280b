//! The claim for a pod's extended resources: made once, told in the pod's status, deleted.

use super::*;
use capstan_core::model::input::{AllocatedDevice, RequestMapping};
use capstan_core::plan::{Chosen, ChosenDevice, ClaimGrant, SpecialClaim, SpecialRequest};

const NAME: &str = "p-extended-resources-x";

fn grant(count: u64) -> ClaimGrant {
    let device = |at: u64| ChosenDevice {
        request: "container-0-request-0".into(),
        device: AllocatedDevice {
            id: ("d".into(), "n1".into(), format!("g{at}").into()),
            share: false,
            consumed: Default::default(),
        },
        admin: false,
        ready_when: None,
    };
    let request =
        SpecialRequest { name: "container-0-request-0".into(), class: "gpu".into(), count };
    let mapping = RequestMapping {
        container: "c".into(),
        resource: "example.com/gpu".into(),
        request: "container-0-request-0".into(),
    };
    let special = SpecialClaim { requests: vec![request], mappings: vec![mapping] };
    ClaimGrant {
        key: ("a".into(), NAME.into()),
        uid: "".into(),
        chosen: Some(Arc::new(Chosen { devices: (0..count).map(device).collect(), nodes: None })),
        special: Some(Arc::new(special)),
        seen: None,
    }
}

fn allocate(count: u64) -> Action {
    Action::AllocateClaims { pod: pod_ref("p"), node: "n1".into(), claims: vec![grant(count)] }
}

fn release() -> Action {
    Action::ReleaseClaims { pod: pod_ref("p"), claims: vec![grant(1)] }
}

fn server() -> Server {
    let class =
        json!({ "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "u" }, "spec": {} });
    Server::with(&[pod("p"), class])
}

fn claim(server: &Server) -> Option<Value> {
    server.get(&format!("resourceclaims/{NAME}"))
}

#[tokio::test(start_paused = true)]
async fn it_is_made_allocated_and_told_in_that_order() {
    let server = server();
    assert_eq!(carry(&server, allocate(1)).await, EffectResult::Done);
    let get = format!("GET {NAME}");
    let patch = format!("PATCH {NAME}");
    let log = ["POST resourceclaims", &get, "GET gpu", &patch, "PATCH status", "PATCH status"];
    assert_eq!(server.log(), log);
    let found = claim(&server).expect("made");
    let meta = &found["metadata"];
    assert_eq!(meta["generateName"], "p-extended-resources-");
    let mark = json!({ "resource.kubernetes.io/extended-resource-claim": "true" });
    assert_eq!(meta["annotations"], mark);
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p",
        "controller": true });
    assert_eq!(meta["ownerReferences"], json!([owner]));
    assert_eq!(meta["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
    let exactly = json!({ "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 });
    let request = json!({ "name": "container-0-request-0", "exactly": exactly });
    assert_eq!(found["spec"]["devices"]["requests"], json!([request]));
    assert_eq!(found["status"]["reservedFor"][0]["uid"], "uid-p");
    let mapping = json!({ "containerName": "c", "resourceName": "example.com/gpu",
        "requestName": "container-0-request-0" });
    let status = json!({ "resourceClaimName": NAME, "requestMappings": [mapping] });
    let pod = server.get("pods/p").expect("there");
    assert_eq!(pod["status"]["extendedResourceClaimStatus"], status);

    // Given back: nothing is left of it, and there is nothing to give back again.
    assert_eq!(carry(&server, release()).await, EffectResult::Done);
    assert_eq!(claim(&server), None);
    let pod = server.get("pods/p").expect("there");
    assert_eq!(pod["status"].get("extendedResourceClaimStatus"), None);
    assert_eq!(carry(&server, release()).await, EffectResult::Done);
}

#[tokio::test(start_paused = true)]
async fn whatever_breaks_on_the_way_one_is_made_and_none_is_left() {
    use Fault::*;
    for fault in [LostAfter, Despite(500), LostBefore, Instead(429, 1)] {
        for place in 0..6 {
            let mut faults = vec![None; place];
            faults.push(fault);
            let server = server().faults(&faults);
            assert_eq!(carry(&server, allocate(1)).await, EffectResult::Done, "{fault:?} {place}");
            let found = claim(&server).expect("made");
            let results = found["status"]["allocation"]["devices"]["results"].as_array();
            assert_eq!(results.map(Vec::len), Some(1), "{fault:?} at {place}");
            let server = server.faults(&faults);
            assert_eq!(carry(&server, release()).await, EffectResult::Done, "{fault:?} {place}");
            assert_eq!(claim(&server), Option::None, "{fault:?} at {place}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_found_made_is_not_made_again() {
    // What admits claims may be gone by then, for longer than anybody waits.
    let server = server().faults(&[Fault::LostAfter]);
    assert_eq!(carry(&server, allocate(1)).await, EffectResult::Done);
    let made = server.log().iter().filter(|request| request.starts_with("POST")).count();
    assert_eq!(made, 1);
}

#[tokio::test(start_paused = true)]
async fn what_always_fails_comes_to_an_end() {
    let faults = [Fault::Instead(500, 0), Fault::None].repeat(40);
    let ended = ("refused", "not done in time: a fault (500)");
    // It cannot be made.
    let server = server().faults(&faults);
    assert_eq!(words(&carry(&server, allocate(1)).await), ended);
    assert_eq!(claim(&server), None);
    // It cannot be taken out of the pod's status, so it stays.
    let server = self::server();
    assert_eq!(carry(&server, allocate(1)).await, EffectResult::Done);
    let server = server.faults(&[Fault::None]).faults(&faults);
    assert_eq!(words(&carry(&server, release()).await), ended);
    assert!(claim(&server).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_another_try_or_another_pod_made_is_not_taken_over() {
    let server = server();
    assert_eq!(carry(&server, allocate(1)).await, EffectResult::Done);
    let result = carry(&server, allocate(2)).await;
    assert_eq!(words(&result), ("conflict", format!("claim {NAME} is of another try").as_str()));
    let mut other = claim(&server).expect("made");
    other["metadata"]["ownerReferences"][0]["uid"] = json!("uid-other");
    server.put(other.clone());
    let result = carry(&server, allocate(1)).await;
    assert_eq!(words(&result), ("conflict", format!("claim {NAME} is of another try").as_str()));
    assert_eq!(carry(&server, release()).await, EffectResult::Done);
    let stays = claim(&server).expect("it is not ours to delete");
    assert_eq!(stays["metadata"]["ownerReferences"], other["metadata"]["ownerReferences"]);
}
