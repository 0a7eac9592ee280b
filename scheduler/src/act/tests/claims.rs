//! Claims on devices, allocated and reserved before a bind, and given back.

use super::*;
use capstan_core::model::input::{
    AllocatedDevice, Nano, NodeSelector, NodeSelectorTerm, Operator, Requirement,
};
use capstan_core::plan::{Chosen, ChosenDevice, ClaimGrant, GivenAt, Seen};

const UID: &str = "0b6f2c1e-7d0a-4a53-9c22-6f1f6a0c1d20";

fn claim(status: Value) -> Value {
    json!({
        "kind": "ResourceClaim",
        "metadata": { "namespace": "a", "name": "c", "uid": UID, "finalizers": ["other"] },
        "spec": { "devices": {
            "requests": [
                { "name": "r", "exactly": { "deviceClassName": "gpu", "count": 1,
                    "tolerations": [{ "key": "t", "operator": "Exists" }] } },
                { "name": "s", "exactly": { "deviceClassName": "nic", "count": 1 } },
            ],
            "config": [
                { "requests": ["s"], "opaque": { "driver": "d", "parameters": { "b": 2 } } },
            ],
        } },
        "status": status,
    })
}

fn class(name: &str) -> Value {
    json!({
        "kind": "DeviceClass",
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": { "config": [{ "opaque": { "driver": "d", "parameters": { "of": name } } }] },
    })
}

fn chosen() -> Chosen {
    let device = |request: &str, name: &str, share: bool| ChosenDevice {
        request: request.into(),
        device: AllocatedDevice {
            id: ("d".into(), "p".into(), name.into()),
            share,
            consumed: if share {
                [("memory".into(), Nano(1_500_000_000))].into()
            } else {
                Default::default()
            },
        },
        admin: false,
        ready_when: None,
    };
    Chosen { devices: vec![device("r", "g0", false), device("s", "n0", true)], nodes: None }
}

fn grants(chosen: Option<Chosen>) -> Vec<ClaimGrant> {
    let chosen = chosen.map(Arc::new);
    let (key, special, seen) = (("a".into(), "c".into()), None, None);
    vec![ClaimGrant { key, uid: UID.into(), chosen, special, seen }]
}

fn allocate(pod: &str, chosen: Option<Chosen>) -> Action {
    Action::AllocateClaims { pod: pod_ref(pod), node: "n1".into(), claims: grants(chosen) }
}

fn release(pod: &str) -> Action {
    Action::ReleaseClaims { pod: pod_ref(pod), claims: grants(None) }
}

fn server(status: Value) -> Server {
    Server::with(&[claim(status), class("gpu"), class("nic")])
}

fn by(pod: &str) -> Value {
    json!({ "resource": "pods", "name": pod, "uid": format!("uid-{pod}") })
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_its_finalizer_then_devices_and_reservation_together() {
    let server = server(json!({}));
    assert_eq!(carry(&server, allocate("p", Some(chosen()))).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET c", "GET gpu", "GET nic", "PATCH c", "PATCH status"]);
    let found = server.get("resourceclaims/c").expect("there");
    let finalizers = json!(["other", "resource.kubernetes.io/delete-protection"]);
    assert_eq!(found["metadata"]["finalizers"], finalizers);
    assert_eq!(found["status"]["reservedFor"], json!([by("p")]));
    let at = found["status"]["allocation"]["allocationTimestamp"].as_str();
    assert!(at.is_some_and(|at| at.ends_with('Z')), "a time that others need not add: {at:?}");
    let devices = &found["status"]["allocation"]["devices"];
    let first = json!({ "request": "r", "driver": "d", "pool": "p", "device": "g0",
        "tolerations": [{ "key": "t", "operator": "Exists" }] });
    assert_eq!(devices["results"][0], first);
    let second = json!({ "request": "s", "driver": "d", "pool": "p", "device": "n0",
        "shareID": "0b6f2c1e-7d0a-4a53-9c22-6f1f6a0c1d22",
        "consumedCapacity": { "memory": "1500m" } });
    assert_eq!(devices["results"][1], second);
    let config = devices["config"].as_array().expect("a list");
    let brief: Vec<String> =
        config.iter().map(|one| format!("{} {}", one["source"], one["requests"])).collect();
    let of = ["\"FromClass\" [\"r\"]", "\"FromClass\" [\"s\"]", "\"FromClaim\" [\"s\"]"];
    assert_eq!(brief, of);
    // Once more: all of it is there.
    assert_eq!(carry(&server, allocate("p", Some(chosen()))).await, EffectResult::Done);
    assert_eq!(server.log().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn whatever_breaks_on_the_way_is_written_once() {
    use Fault::*;
    for fault in [LostAfter, Despite(500), LostBefore, Instead(409, 0), Instead(429, 1)] {
        for place in 0..5 {
            let mut faults = vec![None; place];
            faults.push(fault);
            let server = server(json!({})).faults(&faults);
            let result = carry(&server, allocate("p", Some(chosen()))).await;
            assert_eq!(result, EffectResult::Done, "{fault:?} at {place}");
            let found = server.get("resourceclaims/c").expect("there");
            assert_eq!(found["status"]["reservedFor"], json!([by("p")]), "{fault:?} at {place}");
            let results = found["status"]["allocation"]["devices"]["results"].as_array();
            assert_eq!(results.map(Vec::len), Some(2), "{fault:?} at {place}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_claim_is_allocated_once_and_reserved_for_each() {
    let server = server(json!({}));
    for pod in ["p", "q"] {
        assert_eq!(carry(&server, allocate(pod, Some(chosen()))).await, EffectResult::Done);
    }
    let found = server.get("resourceclaims/c").expect("there");
    assert_eq!(found["status"]["reservedFor"], json!([by("p"), by("q")]));
    // One that comes later knows that it is allocated, and needs not know with what.
    assert_eq!(carry(&server, allocate("r", None)).await, EffectResult::Done);
    let found = server.get("resourceclaims/c").expect("there");
    assert_eq!(found["status"]["reservedFor"].as_array().map(Vec::len), Some(3));
}

#[tokio::test(start_paused = true)]
async fn who_was_late_gets_nothing() {
    let other = json!({ "request": "r", "driver": "d", "pool": "p", "device": "g7" });
    let taken = json!({ "allocation": { "devices": { "results": [other] } } });
    let result = carry(&server(taken), allocate("p", Some(chosen()))).await;
    assert_eq!(words(&result), ("conflict", "claim c was allocated elsewhere"));
    let result = carry(&server(json!({})), allocate("p", None)).await;
    assert_eq!(words(&result), ("conflict", "claim c has no devices any more"));
    let result = carry(&Server::default(), allocate("p", Some(chosen()))).await;
    assert_eq!(words(&result), ("conflict", "claim c is gone"));
    let mut ending = claim(json!({}));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let result = carry(&Server::with(&[ending]), allocate("p", Some(chosen()))).await;
    assert_eq!(words(&result), ("conflict", "claim c is being deleted"));
    let server = Server::with(&[claim(json!({})), class("gpu")]);
    let result = carry(&server, allocate("p", Some(chosen()))).await;
    assert_eq!(words(&result), ("conflict", "device class nic is gone"));
}

#[tokio::test(start_paused = true)]
async fn the_last_to_leave_takes_the_devices_back() {
    let server = server(json!({}));
    for pod in ["p", "q"] {
        carry(&server, allocate(pod, Some(chosen()))).await;
    }
    assert_eq!(carry(&server, release("p")).await, EffectResult::Done);
    let found = server.get("resourceclaims/c").expect("there");
    assert_eq!(found["status"]["reservedFor"], json!([by("q")]));
    assert!(found["status"]["allocation"].is_object());
    assert_eq!(carry(&server, release("p")).await, EffectResult::Done, "once more");
    assert_eq!(carry(&server, release("q")).await, EffectResult::Done);
    let found = server.get("resourceclaims/c").expect("there");
    assert_eq!(found["status"]["allocation"], Value::Null);
    assert_eq!(carry(&Server::default(), release("q")).await, EffectResult::Done, "gone anyway");
}

/// A claim whose device is not ready, with who has reserved it.
fn unready(condition: &str, reserved: &[&str]) -> Value {
    let result = json!({ "request": "r", "driver": "d", "pool": "p", "device": "g0",
        "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"] });
    json!({
        "allocation": { "devices": { "results": [result] },
            "allocationTimestamp": "1970-01-01T00:00:10Z" },
        "devices": [{ "driver": "d", "pool": "p", "device": "g0",
            "conditions": [{ "type": condition, "status": "True", "reason": "x", "message": "",
                "lastTransitionTime": "1970-01-01T00:00:20Z" }] }],
        "reservedFor": reserved.iter().map(|pod| by(pod)).collect::<Vec<_>>(),
    })
}

fn give_back(pod: &str, at: Option<i64>) -> Action {
    let mut claims = grants(None);
    claims[0].seen = Some(Seen::Unready(GivenAt(at.map(Time))));
    Action::ReleaseClaims { pod: pod_ref(pod), claims }
}

#[tokio::test(start_paused = true)]
async fn devices_that_will_not_be_ready_go_back_though_nobody_reserved_them() {
    let at = Some(10_000);
    for (condition, reserved) in [("Broken", &[][..]), ("Other", &[]), ("Broken", &["p"])] {
        let server = server(unready(condition, reserved));
        assert_eq!(carry(&server, give_back("p", at)).await, EffectResult::Done);
        let found = server.get("resourceclaims/c").expect("there");
        assert_eq!(found["status"]["allocation"], Value::Null, "{condition} {reserved:?}");
        assert_eq!(found["status"]["reservedFor"], json!([]));
        // Once more: nothing is left to do.
        let requests = server.log().len();
        assert_eq!(carry(&server, give_back("p", at)).await, EffectResult::Done);
        assert_eq!(server.log()[requests..], ["GET c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_changed_since_it_was_seen_is_left_alone() {
    let (seen, later) = (Some(10_000), Some(9_000));
    let cases = [
        ("ready by now", unready("Attached", &[]), seen),
        ("allocated anew", unready("Broken", &[]), later),
        ("others use it", unready("Broken", &["q"]), seen),
    ];
    for (what, status, at) in cases {
        let server = server(status);
        assert_eq!(carry(&server, give_back("p", at)).await, EffectResult::Done);
        assert_eq!(server.log(), ["GET c"], "{what}");
    }
    // Who shares it leaves it to the last of them.
    let server = server(unready("Broken", &["p", "q"]));
    assert_eq!(carry(&server, give_back("p", seen)).await, EffectResult::Done);
    let found = server.get("resourceclaims/c").expect("there");
    assert_eq!(found["status"]["reservedFor"], json!([by("q")]));
    assert!(found["status"]["allocation"].is_object());
    assert_eq!(carry(&server, give_back("q", seen)).await, EffectResult::Done);
    let found = server.get("resourceclaims/c").expect("there");
    assert_eq!(found["status"]["allocation"], Value::Null);
}

/// A claim with a device, as somebody else has allocated it.
fn found_idle(device: &str, reserved: &[&str]) -> Value {
    json!({
        "allocation": {
            "devices": { "results": [
                { "request": "r", "driver": "d", "pool": "p", "device": device },
            ] },
            "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [
                { "key": "metadata.name", "operator": "In", "values": ["n1"] },
            ] }] },
            "allocationTimestamp": "1970-01-01T00:00:10Z",
        },
        "reservedFor": reserved.iter().map(|pod| by(pod)).collect::<Vec<_>>(),
    })
}

fn give_idle_back(pod: &str, seen: &Value) -> Action {
    let status = serde_json::from_value(seen.clone()).expect("a status");
    let seen = crate::convert::devices::allocation(&status).expect("it has devices");
    let mut claims = grants(None);
    claims[0].seen = Some(Seen::Idle(std::sync::Arc::new(seen)));
    Action::ReleaseClaims { pod: pod_ref(pod), claims }
}

#[tokio::test(start_paused = true)]
async fn devices_that_nobody_uses_go_back_unless_something_changed_meanwhile() {
    for reserved in [&[][..], &["p"]] {
        let server = server(found_idle("g0", reserved));
        let action = give_idle_back("p", &found_idle("g0", reserved));
        assert_eq!(carry(&server, action).await, EffectResult::Done);
        let found = server.get("resourceclaims/c").expect("there");
        assert_eq!(found["status"]["allocation"], Value::Null, "{reserved:?}");
        assert_eq!(found["status"]["reservedFor"], json!([]));
    }
    let changed = [("reserved", found_idle("g0", &["q"])), ("another", found_idle("g1", &[]))];
    for (what, status) in changed {
        let server = server(status);
        let action = give_idle_back("p", &found_idle("g0", &[]));
        assert_eq!(carry(&server, action).await, EffectResult::Done);
        assert_eq!(server.log(), ["GET c"], "{what}");
    }
}

/// What was chosen, but for one change.
fn other(change: impl FnOnce(&mut Chosen)) -> Chosen {
    let mut other = chosen();
    change(&mut other);
    other
}

/// Choices that differ from [`chosen`] in one thing each.
fn others() -> [(&'static str, Chosen); 4] {
    let on = |node: &str| {
        let values = vec![node.into()];
        let of = Requirement { key: "metadata.name".into(), operator: Operator::In, values };
        Some(NodeSelector {
            terms: vec![NodeSelectorTerm { labels: Vec::new(), fields: vec![of] }],
        })
    };
    let memory = || [("memory".into(), Nano(2_000_000_000))].into();
    [
        ("device", other(|it| it.devices[0].device.id.2 = "g9".into())),
        ("nodes", other(|it| it.nodes = on("n2"))),
        ("share", other(|it| it.devices[0].device.share = true)),
        ("capacity", other(|it| it.devices[1].device.consumed = memory())),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_may_not_be_given_back_keeps_no_other() {
    let taken = || claim(json!({ "allocation": {}, "reservedFor": [by("p")] }));
    let mut second = taken();
    second["metadata"]["name"] = json!("d");
    let faults = [Fault::None, Fault::Instead(403, 0)];
    let server = Server::with(&[taken(), second]).faults(&faults);
    let mut both = grants(None);
    both.push(ClaimGrant { key: ("a".into(), "d".into()), ..both[0].clone() });
    let release = Action::ReleaseClaims { pod: pod_ref("p"), claims: both };
    assert_eq!(words(&carry(&server, release).await), ("refused", "a fault (403)"));
    let reserved = |name: &str| {
        let claim = server.get(&format!("resourceclaims/{name}")).expect("there");
        claim["status"]["reservedFor"].clone()
    };
    assert_eq!((reserved("c"), reserved("d")), (json!([by("p")]), json!([])));
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_try_of_the_same_pod_wrote_is_not_taken_for_another_choice() {
    for (what, other) in others() {
        let server = server(json!({}));
        assert_eq!(carry(&server, allocate("p", Some(chosen()))).await, EffectResult::Done);
        let result = carry(&server, allocate("p", Some(other.clone()))).await;
        assert_eq!(words(&result), ("conflict", "claim c was allocated elsewhere"), "{what}");
        let found = server.get("resourceclaims/c").expect("there");
        let device = &found["status"]["allocation"]["devices"]["results"][0]["device"];
        assert_eq!(*device, "g0", "{what}");
        // Each is found again as what it is.
        let server = self::server(json!({}));
        for _ in 0..2 {
            let result = carry(&server, allocate("p", Some(other.clone()))).await;
            assert_eq!(result, EffectResult::Done, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_leaves_what_another_try_got() {
    for (what, other) in others() {
        let server = server(json!({}));
        assert_eq!(carry(&server, allocate("p", Some(other))).await, EffectResult::Done);
        let late = Action::ReleaseClaims { pod: pod_ref("p"), claims: grants(Some(chosen())) };
        assert_eq!(carry(&server, late).await, EffectResult::Done);
        let found = server.get("resourceclaims/c").expect("there");
        assert!(found["status"]["allocation"].is_object(), "{what}");
        assert_eq!(found["status"]["reservedFor"], json!([by("p")]), "{what}");
    }
    let server = server(json!({}));
    assert_eq!(carry(&server, allocate("p", Some(chosen()))).await, EffectResult::Done);
    let its = Action::ReleaseClaims { pod: pod_ref("p"), claims: grants(Some(chosen())) };
    assert_eq!(carry(&server, its).await, EffectResult::Done);
    let found = server.get("resourceclaims/c").expect("there");
    assert_eq!(found["status"]["allocation"], Value::Null);
}
