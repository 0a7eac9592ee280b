//! Rounds of a simulation: who reaches their bound is told that the plan is not final, and nobody
//! is looked at again because others took what he does not ask for.

use capstan_tests::scenario::capstan;
use serde_json::{Value, json};

/// Work without a queue takes a round each, so one pod more than there are rounds is left over.
const PODS: u32 = 10_001;

#[test]
fn a_plan_that_is_not_final_says_so() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let pod = |at: u32| {
        let metadata = json!({"name": format!("p{at}"), "namespace": "team"});
        let spec = json!({"schedulerName": "capstan", "containers": [{"name": "c"}]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    };
    let items: Vec<Value> = std::iter::once(node).chain((0..PODS).map(pod)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("many.json");
    std::fs::write(&file, list.to_string()).expect("a temporary file");
    let run = |words: &[&str]| {
        let mut words: Vec<String> = words.iter().map(ToString::to_string).collect();
        words.push(file.display().to_string());
        capstan(&words)
    };

    let printed = run(&["simulate", "--output", "json"]);
    let said = "stopped after 10,000 rounds while things still changed: this plan is not final";
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(printed.err.contains(said), "{}", printed.err);
    let answer: Value = serde_json::from_str(&printed.out).expect("JSON");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains(said), "tools read it too: {warnings}");

    let asked = run(&["simulate", "--cycles", "3"]);
    assert!(!asked.err.contains("not final"), "so many were asked for: {}", asked.err);
}

/// Pods that no node has room for, each with another request, are older than pods that fit, each of
/// which has a claim of its own, or none; how many rounds that takes.
fn rounds_behind_who_waits(claims: bool) -> u64 {
    let (waiting, fitting) = (60, 8);
    let labels = json!({"kubernetes.io/hostname": "n"});
    let allocatable = json!({"cpu": "400", "memory": "8Gi", "pods": "1000"});
    let metadata = json!({"name": "n", "labels": labels});
    let status = json!({"allocatable": allocatable});
    let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
    let names: Vec<Value> = (0..fitting).map(|at| json!({"name": format!("d{at}")})).collect();
    let slice = json!({"driver": "gpu.x", "nodeName": "n", "pool": pool, "devices": names});
    let api = "resource.k8s.io/v1";
    let class = json!({"name": "gpu"});
    let mut items = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}),
        json!({"apiVersion": api, "kind": "DeviceClass", "metadata": class, "spec": {}}),
        json!({"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": "s"},
               "spec": slice}),
    ];
    for at in 0..waiting + fitting {
        let (name, waits) = (format!("p{at}"), at < waiting);
        let created = format!("2026-03-02T10:{:02}:{:02}Z", at / 60, at % 60);
        let metadata = json!({"name": name, "namespace": "team", "creationTimestamp": created});
        let cpu = if waits { format!("{}", 401 + at) } else { "1m".into() };
        let mut container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        let mut spec = json!({"schedulerName": "capstan"});
        if claims && !waits {
            let exactly = json!({"deviceClassName": "gpu"});
            let devices = json!({"requests": [{"name": "r", "exactly": exactly}]});
            items.push(json!({"apiVersion": api, "kind": "ResourceClaim",
                              "metadata": {"name": name, "namespace": "team"},
                              "spec": {"devices": devices}}));
            spec["resourceClaims"] = json!([{"name": "own", "resourceClaimName": name}]);
            container["resources"]["claims"] = json!([{"name": "own"}]);
        }
        spec["containers"] = json!([container]);
        items.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("behind.json");
    std::fs::write(&file, list.to_string()).expect("a temporary file");
    let words = ["simulate", "--output", "json", &file.display().to_string()];
    let printed = capstan(&words.map(ToString::to_string));
    assert_eq!(printed.code, 0, "{}", printed.err);
    let answer: Value = serde_json::from_str(&printed.out).expect("JSON");
    let admitted = answer["admitted"].as_array().expect("names").len();
    assert_eq!(admitted, fitting, "{}", printed.out);
    answer["cycles"].as_u64().expect("a number")
}

/// A claim is allocated before its pod is bound, which a step of its own shows. Whoever waits for
/// something else was looked at again after each.
#[test]
fn who_asks_for_no_devices_is_not_looked_at_again_when_others_are_given_theirs() {
    let (plain, claims) = (rounds_behind_who_waits(false), rounds_behind_who_waits(true));
    assert!(claims <= plain + 2 * 8, "{claims} rounds, without claims {plain}");
}
