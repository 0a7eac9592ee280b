//! One of everything that Capstan does in a cluster, seen from the API.

use capstan_tests::cluster::{ControlPlane, GpuNodes, RUNS_FOR, eventually};
use serde_json::{Value, json};

use crate::setup::{SOON, read};

/// Queues of the scene.
pub const QUEUES: &str = include_str!("queues.yaml");

/// Volumes of the scene, and who uses them.
const VOLUMES: &str = include_str!("volumes.yaml");

/// Nodes of the scene: eight open GPUs, and eight guarded ones.
pub fn nodes() -> [GpuNodes; 2] {
    ["open", "guarded"].map(|pool| {
        let mut nodes = GpuNodes::new(pool, 1);
        nodes.labels.push(("pool".to_owned(), pool.to_owned()));
        nodes
    })
}

/// Pods that name Capstan: a Job of several, or a bare one.
pub struct Pods<'a> {
    pub name: &'a str,
    pub queue: &'a str,
    pub class: &'a str,
    pub gpus: u32,
    /// How long each runs; absent: until it is stopped.
    pub runs_for: Option<&'a str>,
}

impl Pods<'_> {
    fn labels(&self) -> Value {
        json!({"capstan.sh/queue": self.queue})
    }

    fn annotations(&self) -> Value {
        self.runs_for.map_or(json!({}), |time| json!({ RUNS_FOR: time }))
    }

    fn spec(&self) -> Value {
        json!({
            "schedulerName": "capstan",
            "priorityClassName": self.class,
            "restartPolicy": "Never",
            "containers": [{
                "name": "main",
                "image": "example/main",
                "resources": {"limits": {"nvidia.com/gpu": self.gpus}},
            }],
        })
    }

    /// A bare pod.
    pub fn bare(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": "team",
                "labels": self.labels(),
                "annotations": self.annotations(),
            },
            "spec": self.spec(),
        })
    }

    /// A Job of so many, all at once; it fails for good when one of them is deleted.
    pub fn job(&self, pods: u32) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": "team", "labels": self.labels()},
            "spec": {
                "backoffLimit": 0,
                "parallelism": pods,
                "completions": pods,
                "completionMode": "Indexed",
                "template": {
                    "metadata": {"annotations": self.annotations()},
                    "spec": self.spec(),
                },
            },
        })
    }
}

/// Objects of a kind in the team's namespace whose names begin so.
pub fn found(cluster: &ControlPlane, kind: &str, prefix: &str) -> Vec<Value> {
    let list = read(cluster, &[kind, "--namespace", "team"]);
    let begins = |it: &Value| it["metadata"]["name"].as_str().unwrap_or("").starts_with(prefix);
    list["items"].as_array().expect("a list").iter().filter(|it| begins(it)).cloned().collect()
}

/// Waits until objects of a kind whose names begin so are as they should be.
pub fn wait(
    cluster: &ControlPlane,
    kind: &str,
    prefix: &str,
    what: &str,
    passes: impl Fn(&[Value]) -> bool,
) {
    let brief = |it: &Value| format!("{}: {}", it["metadata"]["name"], it["status"]);
    let waited = eventually(&format!("{kind} {prefix}: {what}"), SOON, || {
        let found = found(cluster, kind, prefix);
        if passes(&found) {
            return Ok(());
        }
        Err(found.iter().map(brief).collect::<Vec<_>>().join("\n"))
    });
    waited.unwrap_or_else(|trouble| {
        let seen = cluster.kubectl(&["get", "wl,cq,lq,jobs,pods", "-A"]).unwrap_or_default();
        panic!("{trouble}\n{seen}")
    });
}

/// So many pods of that name run.
pub fn run(cluster: &ControlPlane, prefix: &str, count: usize) {
    wait(cluster, "pods", prefix, &format!("{count} run"), |pods| {
        pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count() == count
    });
}

/// A condition that is true.
pub fn holds(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|it| it["type"] == condition && it["status"] == "True")
}

/// A gang is bound; a more important Job takes its room and is done, and it goes on: Jobs are
/// suspended and resumed.
pub fn jobs(cluster: &ControlPlane) {
    let low = Pods { name: "low", queue: "open", class: "low", gpus: 2, runs_for: None };
    cluster.apply(&low.job(4).to_string()).expect("applied");
    run(cluster, "low-", 4);
    wait(cluster, "workloads.capstan.sh", "low", "shown as running", |all| {
        all.len() == 1 && all[0]["status"]["state"] == "Running"
    });
    let high = Pods { name: "high", queue: "open", class: "high", gpus: 4, runs_for: Some("3s") };
    cluster.apply(&high.job(1).to_string()).expect("applied");
    wait(cluster, "jobs", "low", "suspended", |jobs| holds(&jobs[0], "Suspended"));
    wait(cluster, "jobs", "high", "complete", |jobs| holds(&jobs[0], "Complete"));
    run(cluster, "low-", 4);
    let jobs = found(cluster, "jobs", "low");
    assert!(!holds(&jobs[0], "Failed") && !holds(&jobs[0], "Suspended"), "{jobs:?}");
    cluster.kubectl(&["delete", "jobs", "--all", "--namespace", "team"]).expect("deleted");
    wait(cluster, "workloads.capstan.sh", "", "none is left", <[Value]>::is_empty);
}

/// A gang of bare pods grows while it runs; a Workload of its name is there already.
pub fn crew(cluster: &ControlPlane) {
    let found = json!({
        "apiVersion": "capstan.sh/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "crew", "namespace": "team"},
        "spec": {"podSets": [{"name": "main", "count": 1}]},
    });
    cluster.apply(&found.to_string()).expect("applied");
    let member = |name| {
        let pod = Pods { name, queue: "open", class: "low", gpus: 1, runs_for: None };
        let mut pod = pod.bare();
        pod["metadata"]["labels"]["capstan.sh/gang"] = json!("crew");
        cluster.apply(&pod.to_string()).expect("applied");
    };
    for (name, count) in [("crew-0", 1), ("crew-1", 2)] {
        member(name);
        run(cluster, "crew-", count);
        wait(cluster, "workloads.capstan.sh", "crew", "shown with its members", |all| {
            all.len() == 1 && all[0]["spec"]["podSets"][0]["count"] == count
        });
    }
    cluster.kubectl(&["delete", "pods", "--all", "--namespace", "team"]).expect("deleted");
    wait(cluster, "workloads.capstan.sh", "", "none is left", <[Value]>::is_empty);
}

/// A pod with a claim on a device is bound once that is allocated and reserved for it.
pub fn claims(cluster: &ControlPlane) {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "fast"}});
    let objects = [
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "fast"},
            "spec": {
                "selectors": [{"cel": {"expression": "device.driver == 'fast.example.com'"}}],
                "config": [{"opaque": {"driver": "fast.example.com", "parameters": {"a": 1}}}],
            },
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "open-0-fast"},
            "spec": {
                "driver": "fast.example.com",
                "nodeName": "open-0",
                "pool": {"name": "open-0", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d0"}, {"name": "d1"}],
            },
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "fast", "namespace": "team"},
            "spec": {"devices": {"requests": [request]}},
        }),
    ];
    for object in objects {
        cluster.apply(&object.to_string()).expect("applied");
    }
    let pod = Pods { name: "claimant", queue: "open", class: "low", gpus: 1, runs_for: None };
    let mut pod = pod.bare();
    pod["spec"]["resourceClaims"] = json!([{"name": "f", "resourceClaimName": "fast"}]);
    cluster.apply(&pod.to_string()).expect("applied");
    run(cluster, "claimant", 1);
    let claim = found(cluster, "resourceclaims", "fast").remove(0);
    let device = &claim["status"]["allocation"]["devices"]["results"][0];
    assert_eq!((&device["device"], &device["pool"]), (&json!("d0"), &json!("open-0")), "{claim}");
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "claimant", "{claim}");
    let finalizers = claim["metadata"]["finalizers"].to_string();
    assert!(finalizers.contains("resource.kubernetes.io/delete-protection"), "{finalizers}");
    cluster.kubectl(&["delete", "pods", "--all", "--namespace", "team"]).expect("deleted");
    wait(cluster, "workloads.capstan.sh", "", "none is left", <[Value]>::is_empty);
}

/// An extended resource is met by a device with a claim that is made for it; one that was left by
/// a try that nobody knows the end of is deleted.
pub fn extended(cluster: &ControlPlane) {
    let class = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "swift"},
        "spec": {
            "extendedResourceName": "example.com/swift",
            "selectors": [{"cel": {"expression": "device.driver == 'fast.example.com'"}}],
        },
    });
    cluster.apply(&class.to_string()).expect("applied");
    let pod = Pods { name: "swift", queue: "open", class: "low", gpus: 1, runs_for: None };
    let mut pod = pod.bare();
    // The queue has none of it to give.
    pod["metadata"]["labels"] = json!({});
    for amounts in ["requests", "limits"] {
        pod["spec"]["containers"][0]["resources"][amounts]["example.com/swift"] = json!(1);
    }
    cluster.apply(&pod.to_string()).expect("applied");
    run(cluster, "swift", 1);
    let claim = found(cluster, "resourceclaims", "swift").remove(0);
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "swift", "{claim}");

    pod["metadata"]["name"] = json!("gated");
    pod["spec"]["schedulingGates"] = json!([{"name": "test.capstan.sh/wait"}]);
    cluster.apply(&pod.to_string()).expect("applied");
    let pod = found(cluster, "pods", "gated").remove(0);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "gated", "controller": true,
        "uid": pod["metadata"]["uid"]});
    let left = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "gated-left", "namespace": "team", "ownerReferences": [owner],
            "annotations": claim["metadata"]["annotations"],
        },
        "spec": claim["spec"],
    });
    cluster.apply(&left.to_string()).expect("applied");
    wait(cluster, "resourceclaims", "gated-left", "gone", <[Value]>::is_empty);
    cluster.kubectl(&["delete", "pods", "--all", "--namespace", "team"]).expect("deleted");
    wait(cluster, "workloads.capstan.sh", "", "none is left", <[Value]>::is_empty);
}

/// A bare pod takes the room of another, a third waits, and one that needs its flavor's
/// toleration gets it.
pub fn bare_pods(cluster: &ControlPlane) {
    let pod = |name, queue, class| {
        let pod = Pods { name, queue, class, gpus: 8, runs_for: None };
        cluster.apply(&pod.bare().to_string()).expect("applied");
    };
    pod("victim", "open", "low");
    run(cluster, "victim", 1);
    pod("taker", "open", "high");
    wait(cluster, "pods", "victim", "gone", <[Value]>::is_empty);
    run(cluster, "taker", 1);
    pod("waiter", "open", "low");
    wait(cluster, "pods", "waiter", "says why it waits", |pods| {
        let conditions = pods[0]["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "PodScheduled"))
    });
    wait(cluster, "workloads.capstan.sh", "waiter", "shown once it has waited", |all| {
        all.len() == 1
    });
    // Left to the garbage collector it would be gone before Capstan has a reason to delete it.
    let orphaned = ["delete", "pod", "waiter", "--namespace", "team", "--cascade=orphan"];
    cluster.kubectl(&orphaned).expect("deleted");
    wait(cluster, "workloads.capstan.sh", "waiter", "gone with its pod", <[Value]>::is_empty);
    pod("guest", "guarded", "low");
    run(cluster, "guest", 1);
    let guest = found(cluster, "pods", "guest").remove(0);
    assert_eq!(guest["spec"]["nodeName"], "guarded-0");
    let tolerations = guest["spec"]["tolerations"].to_string();
    assert!(tolerations.contains("\"guarded\""), "{tolerations}");
}

/// Volumes: one that is there is given to a claim, and one is asked for that nobody makes.
pub fn volumes(cluster: &ControlPlane) {
    cluster.apply(VOLUMES).expect("applied");
    run(cluster, "stores", 1);
    let claims = found(cluster, "persistentvolumeclaims", "there");
    assert_eq!(claims[0]["status"]["phase"], "Bound");
    wait(cluster, "persistentvolumeclaims", "made", "told which node", |claims| {
        let annotations = &claims[0]["metadata"]["annotations"];
        annotations["volume.kubernetes.io/selected-node"].is_string()
    });
    cluster.kubectl(&["delete", "pod", "asks", "--namespace", "team"]).expect("deleted");
}

/// What people look at says what became of it.
pub fn told(cluster: &ControlPlane) {
    let queue = |name: &str, what: &str| {
        let name = name.to_owned();
        let shown = eventually(what, SOON, || {
            let queue = read(cluster, &["clusterqueue", &name]);
            match (holds(&queue, "Active"), &queue["status"]["gpus"]) {
                (true, gpus) if gpus == "8/8" => Ok(()),
                _ => Err(queue["status"].to_string()),
            }
        });
        shown.expect("it is shown");
    };
    queue("open", "the status of the queue of the taker");
    queue("guarded", "the status of the queue of the guest");
    wait(cluster, "cohorts", "all", "active", |all| holds(&all[0], "Active"));
    wait(cluster, "localqueues", "open", "active, with what it has", |all| {
        holds(&all[0], "Active") && all[0]["status"]["gpus"] == 8
    });
    let events = read(cluster, &["events.events.k8s.io", "--namespace", "team"]);
    let ours = events["items"].as_array().expect("a list").iter();
    let reasons: Vec<&str> = ours
        .filter(|event| event["reportingController"] == "capstan")
        .filter_map(|event| event["reason"].as_str())
        .collect();
    assert!(reasons.contains(&"Preempted"), "{reasons:?}");
}
