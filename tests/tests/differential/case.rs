//! A cluster and the pods that are tried on its nodes.
//!
//! Objects refer to each other by uids as they stand here; who lays them out puts in those that
//! the API server gave. One with a deletion timestamp is deleted once it is there, and stays.

use serde_json::{Value, json};

use crate::objects::{KINDS, place};

/// Namespaces that all clusters have, with their labels. Claims of the second may ask for devices
/// that others use.
pub const NAMESPACES: [(&str, &[(&str, &str)]); 3] = [
    ("red", &[("team", "red"), ("tier", "gold")]),
    ("blue", &[("team", "blue"), ("tier", "gold"), (ADMIN_ACCESS, "true")]),
    ("grey", &[("team", "grey")]),
];
const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";

/// The runtime class of pods that have overhead.
pub const HEAVY: &str = "heavy";

/// What a node offers and nobody else does, but for the node's name.
const PIN: &str = "pin.capstan.sh";

/// A cluster, and pods to try on each of its nodes.
#[derive(Clone, Debug)]
pub struct Case {
    /// It is made from this number and nothing else.
    pub number: u64,
    /// Nodes.
    pub nodes: Vec<Value>,
    /// All other objects, in the order in which they are made.
    pub objects: Vec<Value>,
    /// Pods to try.
    pub drafts: Vec<Draft>,
}

/// A pod to try.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// As it is made, but for its name, its pin and who schedules it.
    pub pod: Value,
    /// Claims that are made for each copy, as controllers would.
    pub made: Vec<Made>,
    /// A claim of it has its node already: who takes the pod waits and writes nothing.
    pub begun: bool,
    /// A claim on devices of it is not to be used: kube-scheduler does not queue the pod, and says
    /// nothing of it.
    pub unready: bool,
}

/// A claim that is made for a pod.
#[derive(Clone, Debug)]
pub struct Made {
    /// What the pod calls it.
    pub name: String,
    /// The claim, but for its name and owner.
    pub claim: Value,
    /// It belongs to another pod, so that this one may not use it.
    pub foreign: bool,
}

impl Case {
    /// A case of these; what is made first goes first.
    pub fn new(number: u64, nodes: Vec<Value>, mut objects: Vec<Value>, pods: Vec<Draft>) -> Case {
        let rank = |object: &Value| KINDS.iter().position(|row| row.0 == place(object).0);
        objects.sort_by_key(rank);
        Case { number, nodes, objects, drafts: pods }
    }
}

impl Draft {
    /// The copy of it for one node and one scheduler.
    pub fn copy(&self, name: &str, node: &str, scheduler: &str) -> Value {
        let mut pod = self.pod.clone();
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["schedulerName"] = json!(scheduler);
        pod["spec"]["containers"][0]["resources"]["limits"][pin(node)] = json!("1");
        pod
    }

    /// Whether it has volumes that claims stand for.
    pub fn claims_volumes(&self) -> bool {
        let volumes = self.pod["spec"]["volumes"].as_array();
        let claims =
            |it: &Value| it["persistentVolumeClaim"].is_object() || it["ephemeral"].is_object();
        volumes.into_iter().flatten().any(claims)
    }

    /// Whether it claims devices, or may get some for extended resources.
    pub fn claims_devices(&self) -> bool {
        let spec = &self.pod["spec"];
        let claims = spec["resourceClaims"].as_array().is_some_and(|claims| !claims.is_empty());
        claims || spec.to_string().contains("\"limits\"")
    }
}

/// The resource that pins a pod to a node.
pub fn pin(node: &str) -> String {
    format!("{PIN}/{node}")
}

/// Objects that all clusters have.
pub fn always() -> Vec<Value> {
    let namespace = |(name, labels): &(&str, &[(&str, &str)])| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
        let labels: serde_json::Map<String, Value> = labels.collect();
        let metadata = json!({"name": name, "labels": labels});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    };
    let heavy = json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": HEAVY},
        "handler": HEAVY,
        "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
    });
    NAMESPACES.iter().map(namespace).chain([heavy]).collect()
}

/// The claim of a copy, named and owned as controllers do it.
pub fn claim_of(made: &Made, pod: &Value, uid: &str) -> Value {
    let (_, namespace, name) = place(pod);
    let owner = if made.foreign { "another-pod" } else { uid };
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": name, "uid": owner, "controller": true,
    });
    let mut claim = made.claim.clone();
    claim["metadata"] = json!({
        "name": format!("{name}-{}", made.name),
        "namespace": namespace,
        "ownerReferences": [owner],
    });
    claim
}
