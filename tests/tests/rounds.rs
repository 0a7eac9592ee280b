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

/// What pods have of their own.
#[derive(Clone, Copy, PartialEq)]
enum Has {
    Nothing,
    Device,
    Volume,
    /// No thing, but a label by which all of its kind are spread.
    Spread,
}

const DEVICES_API: &str = "resource.k8s.io/v1";

/// A node, with devices and a driver that makes volumes there.
fn ground(devices: u32) -> Vec<Value> {
    let metadata = json!({"name": "n", "labels": {"kubernetes.io/hostname": "n"}});
    let allocatable = json!({"cpu": "400", "memory": "8Gi", "pods": "1000"});
    let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
    let names: Vec<Value> = (0..devices).map(|at| json!({"name": format!("d{at}")})).collect();
    let slice = json!({"driver": "gpu.x", "nodeName": "n", "pool": pool, "devices": names});
    vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata,
               "status": {"allocatable": allocatable}}),
        json!({"apiVersion": DEVICES_API, "kind": "DeviceClass", "metadata": {"name": "gpu"},
               "spec": {}}),
        json!({"apiVersion": DEVICES_API, "kind": "ResourceSlice", "metadata": {"name": "s"},
               "spec": slice}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
               "metadata": {"name": "made"}, "provisioner": "csi.x",
               "volumeBindingMode": "WaitForFirstConsumer"}),
    ]
}

/// A pod with a claim of its own, if it has any.
fn pod(at: u32, cpu: &str, has: Has) -> Vec<Value> {
    let name = format!("p{at}");
    let own = json!({"name": name, "namespace": "team"});
    let mut container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let mut spec = json!({"schedulerName": "capstan"});
    let mut objects = Vec::new();
    match has {
        Has::Nothing => {}
        Has::Spread => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "spread"}},
            }]);
        }
        Has::Device => {
            let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
            let devices = json!({"requests": [request]});
            objects.push(json!({"apiVersion": DEVICES_API, "kind": "ResourceClaim",
                                "metadata": own, "spec": {"devices": devices}}));
            spec["resourceClaims"] = json!([{"name": "own", "resourceClaimName": name}]);
            container["resources"]["claims"] = json!([{"name": "own"}]);
        }
        Has::Volume => {
            let asks = json!({"storageClassName": "made", "accessModes": ["ReadWriteOnce"],
                              "resources": {"requests": {"storage": "1Gi"}}});
            objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                                "metadata": own, "spec": asks}));
            let claim = json!({"claimName": name});
            spec["volumes"] = json!([{"name": "own", "persistentVolumeClaim": claim}]);
        }
    }
    spec["containers"] = json!([container]);
    let created = format!("2026-03-02T10:{:02}:{:02}Z", at / 60, at % 60);
    let labels = if has == Has::Spread { json!({"app": "spread"}) } else { json!({}) };
    let metadata = json!({"name": name, "namespace": "team", "labels": labels,
                          "creationTimestamp": created});
    objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
    objects
}

/// Pods that no node has room for, each with another request, are older than pods that fit; how
/// many rounds that takes, where those and these have something of their own.
fn rounds_behind_who_waits(those: Has, these: Has) -> u64 {
    let (waiting, fitting) = (60, 8);
    let mut items = ground(fitting);
    items.extend((0..waiting).flat_map(|at| pod(at, &format!("{}", 401 + at), those)));
    items.extend((waiting..waiting + fitting).flat_map(|at| pod(at, "1m", these)));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("behind.json");
    std::fs::write(&file, list.to_string()).expect("a temporary file");
    let file = file.display().to_string();
    let printed = capstan(&["simulate", "--output", "json", &file].map(ToString::to_string));
    assert_eq!(printed.code, 0, "{}", printed.err);
    let answer: Value = serde_json::from_str(&printed.out).expect("JSON");
    let admitted = answer["admitted"].as_array().expect("names").len();
    assert_eq!(admitted as u32, fitting, "{}", printed.out);
    answer["cycles"].as_u64().expect("a number")
}

/// A claim is written before its pod is bound, which a step of its own shows. Whoever waits was
/// looked at again after each, though it can only have taken something.
#[test]
fn nobody_is_looked_at_again_because_others_are_given_what_he_does_not_wait_for() {
    let plain = rounds_behind_who_waits(Has::Nothing, Has::Nothing);
    for these in [Has::Device, Has::Volume] {
        for those in [Has::Nothing, these] {
            let rounds = rounds_behind_who_waits(those, these);
            assert!(rounds <= plain + 2 * 8, "{rounds} rounds, of plain pods {plain}");
        }
    }
    // Nor because they come near others, or to other domains than others.
    let rounds = rounds_behind_who_waits(Has::Nothing, Has::Spread);
    assert!(rounds <= plain + 2 * 8, "{rounds} rounds, of plain pods {plain}");
}
