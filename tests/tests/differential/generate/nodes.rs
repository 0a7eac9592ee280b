//! Nodes: labels, taints, what they offer and declare.

use capstan_tests::seed::Seed;
use serde_json::{Value, json};

use super::{Theme, one_in};
use crate::case::pin;

/// Values of the zone label.
pub const ZONES: [&str; 3] = ["z1", "z2", "z3"];
/// The label of the zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of the region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The label in which a driver that took volumes over says the zone.
const EBS_ZONE: &str = "topology.ebs.csi.aws.com/zone";
/// The label that has a node's name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// What kubelets declare that matters to anybody.
const FEATURES: [&str; 2] =
    ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"];

/// Some nodes.
pub fn some(seed: &mut Seed, theme: Theme) -> Vec<Value> {
    let count = seed.between(4, 6);
    (1..=count).map(|at| node(seed, theme, &format!("n{at}"))).collect()
}

fn node(seed: &mut Seed, theme: Theme, name: &str) -> Value {
    let features: Vec<&str> = FEATURES.into_iter().filter(|_| one_in(seed, 2)).collect();
    let offers = offers(seed, theme, name);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels(seed, theme, name)},
        "spec": {
            "unschedulable": one_in(seed, theme.rarely(4)),
            "taints": taints(seed, theme),
        },
        "status": {"capacity": offers, "allocatable": offers, "declaredFeatures": features},
    })
}

fn labels(seed: &mut Seed, theme: Theme, name: &str) -> Value {
    let mut labels = json!({});
    if !one_in(seed, theme.rarely(8)) {
        labels[HOSTNAME] = json!(name);
    }
    if !one_in(seed, 8) {
        labels[ZONE] = json!(seed.pick(&ZONES));
    }
    if one_in(seed, 2) {
        labels[REGION] = json!(seed.pick(&["r1", "r2"]));
    }
    if labels[ZONE].is_string() && labels[REGION].is_string() {
        labels[EBS_ZONE] = labels[ZONE].clone();
    }
    if one_in(seed, 2) {
        labels["rack"] = json!(seed.pick(&["a", "b"]));
    }
    if !one_in(seed, 3) {
        labels["disk"] = json!(seed.pick(&["ssd", "hdd", ""]));
    }
    if !one_in(seed, 3) {
        labels["generation"] = json!(seed.pick(&["1", "3", "05", "10", "new", "007"]));
    }
    labels
}

fn taints(seed: &mut Seed, theme: Theme) -> Value {
    let effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
    let mut taints = Vec::new();
    for (key, values) in [("dedicated", &["a", "b"][..]), ("gpu", &[""]), ("old", &["yes", "1"])] {
        if one_in(seed, theme.rarely(5)) {
            let (value, effect) = (seed.pick(values), seed.pick(&effects));
            taints.push(json!({"key": key, "value": value, "effect": effect}));
        }
    }
    json!(taints)
}

/// What a node has; where resources are not what it is about, enough of it.
fn offers(seed: &mut Seed, theme: Theme, name: &str) -> Value {
    let ample = !theme.has(Theme::Plain);
    let mut offers = json!({
        "cpu": if ample { "16" } else { *seed.pick(&["500m", "1", "1500m", "2", "4"]) },
        "memory": if ample { "64Gi" } else { *seed.pick(&["256Mi", "512Mi", "1Gi", "2Gi"]) },
        "pods": if ample { "110" } else { *seed.pick(&["2", "4", "6", "110", "110"]) },
        "ephemeral-storage": *seed.pick(&["1Gi", "10Gi"]),
    });
    if one_in(seed, 2) {
        offers["example.com/gpu"] = json!(seed.pick(&["0", "1", "2", "4"]));
    }
    if one_in(seed, 3) {
        offers["hugepages-2Mi"] = json!("64Mi");
    }
    offers[pin(name)] = json!("1000");
    offers
}
