//! What these tests put on a cluster, and what they look at.

use std::fs;
use std::time::Duration;

use capstan_tests::cluster::{
    Audited, Capstan, ControlPlane, GpuNodes, Options, RUNS_FOR, Trouble, eventually, name_of,
};
use serde_json::{Value, json};

/// Long enough for a busy machine, and no test waits for it that passes.
pub const SOON: Duration = Duration::from_secs(60);

/// A Job of one-GPU pods that name Capstan.
#[derive(Clone)]
pub struct Job {
    pub namespace: &'static str,
    pub name: String,
    pub queue: Option<&'static str>,
    pub class: Option<&'static str>,
    pub pods: u32,
    /// Pods that a disruption took away do not count as failed.
    pub undisrupted: bool,
    /// How long each pod runs; absent: until it is stopped.
    pub runs_for: Option<&'static str>,
}

impl Job {
    pub fn new(namespace: &'static str, name: &str) -> Job {
        let name = name.to_owned();
        Job {
            namespace,
            name,
            queue: None,
            class: None,
            pods: 1,
            undisrupted: false,
            runs_for: None,
        }
    }

    /// One of so many pods.
    pub fn of(namespace: &'static str, name: &str, pods: u32) -> Job {
        Job { pods, ..Job::new(namespace, name) }
    }

    /// The manifest; it fails for good when a pod of it is deleted.
    pub fn manifest(&self) -> Value {
        let mut annotations = json!({});
        if let Some(time) = self.runs_for {
            annotations[RUNS_FOR] = json!(time);
        }
        let mut labels = json!({});
        if let Some(queue) = self.queue {
            labels["capstan.sh/queue"] = json!(queue);
        }
        let resources = json!({"nvidia.com/gpu": 1, "cpu": "2", "memory": "8Gi"});
        let mut job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "backoffLimit": 0,
                "parallelism": self.pods,
                "completions": self.pods,
                "completionMode": "Indexed",
                "template": {
                    "metadata": {"annotations": annotations},
                    "spec": {
                        "schedulerName": "capstan",
                        "priorityClassName": self.class,
                        "restartPolicy": "Never",
                        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                        "containers": [{
                            "name": "gpu-workload",
                            "image": "nvcr.io/nvidia/cuda:12.5.0-base-ubuntu22.04",
                            "command": ["sleep", "600"],
                            "resources": {"requests": resources, "limits": resources},
                        }],
                    },
                },
            },
        });
        if self.undisrupted {
            let disrupted = json!([{"type": "DisruptionTarget"}]);
            let rule = json!({"action": "Ignore", "onPodConditions": disrupted});
            job["spec"]["podFailurePolicy"] = json!({"rules": [rule]});
        }
        job
    }
}

/// The pods of a gang without an owner.
pub fn bare_gang(name: &str, size: usize) -> Vec<Value> {
    let template = Job::new("default", name).manifest()["spec"]["template"].take();
    let member = |at: usize| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": format!("{name}-{at}"),
                "namespace": "default",
                "labels": {"capstan.sh/gang": name},
                "annotations": {"capstan.sh/min-member": size.to_string()},
            },
            "spec": template["spec"],
        })
    };
    (0..size).map(member).collect()
}

/// Creates Jobs at once.
pub fn submit(cluster: &ControlPlane, jobs: &[Job]) {
    let items: Vec<Value> = jobs.iter().map(Job::manifest).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
}

/// A control plane with a queue for all on these nodes, and a replica that leads.
pub fn led(nodes: &GpuNodes) -> (ControlPlane, Capstan) {
    let cluster = cluster(nodes);
    cluster.apply(include_str!("one-queue.yaml")).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    (cluster, capstan)
}

/// A control plane with these nodes and Capstan's kinds; nothing but Capstan binds there.
pub fn cluster(nodes: &GpuNodes) -> ControlPlane {
    cluster_with(Options { controller_manager: true, kwok: true, ..Options::bare() }, nodes)
}

/// A control plane with these nodes and Capstan's kinds.
pub fn cluster_with(options: Options, nodes: &GpuNodes) -> ControlPlane {
    let cluster = ControlPlane::start(options).expect("a control plane");
    cluster.create_nodes(nodes).expect("nodes");
    cluster.install_crds().expect("installed");
    cluster
}

/// Makes these objects, as `kubectl create` does.
pub fn create(cluster: &ControlPlane, items: Vec<Value>) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
}

/// A PriorityClass.
pub fn class(name: &str, value: i32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    })
}

/// Names of objects that pass.
pub fn names(objects: &[Value], which: impl Fn(&Value) -> bool) -> Vec<String> {
    let named = objects.iter().filter(|it| which(it)).map(name_of);
    let mut names: Vec<String> = named.map(str::to_owned).collect();
    names.sort();
    names
}

/// Waits until objects of a kind are as they should be; they come back.
pub fn wait_for(
    cluster: &ControlPlane,
    kind: &str,
    what: &str,
    passes: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    wait_within(SOON, cluster, kind, what, passes)
}

/// The same for what takes others longer.
pub fn wait_within(
    time: Duration,
    cluster: &ControlPlane,
    kind: &str,
    what: &str,
    passes: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let found: Result<Vec<Value>, Trouble> = eventually(what, time, || {
        let objects = cluster.list(kind).map_err(|e| e.to_string())?;
        match passes(&objects) {
            true => Ok(objects),
            false => Err(objects.iter().map(brief).collect::<Vec<_>>().join("\n")),
        }
    });
    found.unwrap_or_else(|trouble| {
        let seen = cluster.kubectl(&["get", "wl,cq,lq,jobs,pods", "-A"]).unwrap_or_default();
        panic!("{seen}\n{trouble}")
    })
}

/// A line on an object: how far it is, and its conditions.
fn brief(it: &Value) -> String {
    let status = &it["status"];
    let far = ["phase", "state"].iter().find_map(|key| status[key].as_str());
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let conditions = conditions.iter().map(|one| {
        let part = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        format!("{}={} {}", part("type"), part("status"), part("reason"))
    });
    let all: Vec<String> = conditions.collect();
    format!("{} {}: {}", name_of(it), far.unwrap_or("-"), all.join(", "))
}

/// Capstan's log says all of this.
pub fn says(capstan: &Capstan, words: &[&str]) {
    let said = eventually("its log says so", SOON, || {
        let log = fs::read_to_string(capstan.process.log()).unwrap_or_default();
        let silent: Vec<&&str> = words.iter().filter(|word| !log.contains(**word)).collect();
        if silent.is_empty() { Ok(()) } else { Err(format!("nothing of {silent:?} in\n{log}")) }
    });
    said.expect("said");
}

/// How many pods that pass are running.
pub fn running(pods: &[Value], which: impl Fn(&str) -> bool) -> usize {
    pods.iter().filter(|it| it["status"]["phase"] == "Running" && which(name_of(it))).count()
}

/// What a user asked the API server to write, from the audit log.
pub fn written(cluster: &ControlPlane, user: &str) -> Vec<Audited> {
    let asked = cluster.audited().expect("the audit log");
    let written: Vec<Audited> =
        asked.into_iter().filter(|it| it.user == user && it.writes()).collect();
    let binds = written.iter().any(|it| it.resource == "pods/binding" && it.is_done());
    assert!(binds, "{user} is not who binds");
    let collections = written.iter().filter(|it| it.verb == "deletecollection").count();
    assert_eq!(collections, 0, "what is deleted as a collection may be anybody's");
    written
}

/// Lets pods of a namespace that pass end within a second or two.
pub fn end(cluster: &ControlPlane, namespace: &str, which: impl Fn(&str) -> bool) {
    let pods = cluster.list("pods").expect("pods");
    let runs = |pod: &Value| {
        let here = pod["metadata"]["namespace"] == namespace;
        here && pod["status"]["phase"] == "Running" && which(name_of(pod))
    };
    let ending = names(&pods, runs);
    assert!(!ending.is_empty(), "nothing runs in {namespace}");
    let note = format!("{RUNS_FOR}=1s");
    let named = ending.iter().map(String::as_str);
    let words = ["annotate", "pods", "-n", namespace].into_iter().chain(named);
    let words: Vec<&str> = words.chain([&*note]).collect();
    cluster.kubectl(&words).expect("annotated");
}
