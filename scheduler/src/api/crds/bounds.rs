//! Bounds and defaults of our fields, beyond their types.
//!
//! Every list has a greatest length and every text that a rule looks at too: an API server
//! reckons what a rule may cost from these, and refuses what may cost too much. They are Kueue's
//! bounds where it has the field. Objects from files are not held to them: what is too long for
//! an API server is still worth simulating.

use serde_json::{Value, json};

use super::shape;
use crate::api::workload;

/// A name of an object.
const NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A name of an object, or nothing.
const NAME_OR_NONE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// A resource or a label key: a name with an optional domain.
const QUALIFIED: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
);
/// A label value.
const LABEL_VALUE: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// What a taint does.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Kinds that have a quota.
const QUOTAS: &[&str] = &["ClusterQueue", "Cohort"];
/// Kinds that show conditions.
const CONDITIONS: &[&str] = &["ClusterQueue", "Cohort", "LocalQueue", "Workload"];
/// Kinds that show usage by flavor.
const USAGES: &[&str] = &["ClusterQueue", "LocalQueue"];

/// Kinds, path, and what is added to the schema there.
type Bound = (&'static [&'static str], &'static str, Value);

/// Adds all bounds of a kind to its schema.
pub fn apply(kind: &str, schema: &mut Value) {
    let tables = [quotas(), policies(), flavors(), workloads(), statuses()];
    for (kinds, path, patch) in tables.into_iter().flatten() {
        if kinds.contains(&kind) {
            let part = shape::at(schema, path).expect("bounds name fields that exist");
            shape::merge(part, patch);
        }
    }
}

fn name() -> Value {
    json!({ "maxLength": 253, "pattern": NAME })
}

fn name_or_none() -> Value {
    json!({ "maxLength": 253, "pattern": NAME_OR_NONE })
}

fn qualified() -> Value {
    json!({ "minLength": 1, "maxLength": 317, "pattern": QUALIFIED })
}

fn map_of(key: &str, most: usize) -> Value {
    json!({
        "maxItems": most,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    })
}

fn plain_list(most: usize) -> Value {
    json!({ "maxItems": most, "x-kubernetes-list-type": "atomic" })
}

/// Quotas: a flavor stands once in a group, a resource once in a flavor.
fn quotas() -> Vec<Bound> {
    vec![
        (QUOTAS, "spec.resourceGroups", plain_list(16)),
        (
            QUOTAS,
            "spec.resourceGroups[].coveredResources",
            json!({ "x-kubernetes-list-type": "set" }),
        ),
        (QUOTAS, "spec.resourceGroups[].coveredResources[]", qualified()),
        (QUOTAS, "spec.resourceGroups[].flavors", map_of("name", 64)),
        (QUOTAS, "spec.resourceGroups[].flavors[].name", name()),
        (QUOTAS, "spec.resourceGroups[].flavors[].resources", map_of("name", 64)),
        (QUOTAS, "spec.resourceGroups[].flavors[].resources[].name", qualified()),
        (&["ClusterQueue"], "spec.cohortName", name_or_none()),
        (&["Cohort"], "spec.parentName", name_or_none()),
    ]
}

/// Selector and policies of a ClusterQueue, with Kueue's defaults.
fn policies() -> Vec<Bound> {
    const QUEUE: &[&str] = &["ClusterQueue"];
    let sharing: &[&str] = &["ClusterQueue", "Cohort", "LocalQueue"];
    vec![
        (
            QUEUE,
            "spec.namespaceSelector",
            json!({ "default": {}, "x-kubernetes-map-type": "atomic" }),
        ),
        (QUEUE, "spec.namespaceSelector.matchLabels", json!({ "maxProperties": 64 })),
        (
            QUEUE,
            "spec.namespaceSelector.matchLabels{}",
            json!({ "maxLength": 63, "pattern": LABEL_VALUE }),
        ),
        (QUEUE, "spec.namespaceSelector.matchExpressions", plain_list(64)),
        (QUEUE, "spec.namespaceSelector.matchExpressions[].key", qualified()),
        (
            QUEUE,
            "spec.namespaceSelector.matchExpressions[].operator",
            json!({ "enum": ["In", "NotIn", "Exists", "DoesNotExist"] }),
        ),
        (QUEUE, "spec.namespaceSelector.matchExpressions[].values", plain_list(256)),
        (
            QUEUE,
            "spec.namespaceSelector.matchExpressions[].values[]",
            json!({ "maxLength": 63, "pattern": LABEL_VALUE }),
        ),
        (QUEUE, "spec.flavorFungibility", json!({ "default": {} })),
        (QUEUE, "spec.flavorFungibility.whenCanBorrow", json!({ "default": "MayStopSearch" })),
        (QUEUE, "spec.flavorFungibility.whenCanPreempt", json!({ "default": "TryNextFlavor" })),
        (QUEUE, "spec.preemption", json!({ "default": {} })),
        (QUEUE, "spec.preemption.borrowWithinCohort", json!({ "default": {} })),
        (QUEUE, "spec.preemption.victimOrder", json!({ "default": "LowestPriority" })),
        (USAGES, "spec.stopPolicy", json!({ "default": "None" })),
        (sharing, "spec.fairSharing.weight", json!({ "default": 1 })),
        (QUEUE, "spec.scoringProfile", json!({ "maxLength": 63 })),
        (&["LocalQueue"], "spec", json!({ "required": ["clusterQueue"] })),
        (&["LocalQueue"], "spec.clusterQueue", name()),
    ]
}

/// ResourceFlavor and Topology.
fn flavors() -> Vec<Bound> {
    const FLAVOR: &[&str] = &["ResourceFlavor"];
    let short = || json!({ "maxLength": 63, "pattern": LABEL_VALUE });
    vec![
        (
            FLAVOR,
            "spec.nodeLabels",
            json!({ "maxProperties": 8, "x-kubernetes-map-type": "atomic" }),
        ),
        (FLAVOR, "spec.nodeLabels{}", short()),
        (FLAVOR, "spec.nodeTaints", plain_list(8)),
        (FLAVOR, "spec.nodeTaints[].key", qualified()),
        (FLAVOR, "spec.nodeTaints[].value", short()),
        (FLAVOR, "spec.nodeTaints[].effect", json!({ "enum": EFFECTS })),
        (FLAVOR, "spec.tolerations", plain_list(8)),
        (FLAVOR, "spec.tolerations[].key", json!({ "maxLength": 317 })),
        (FLAVOR, "spec.tolerations[].value", short()),
        (
            FLAVOR,
            "spec.tolerations[].operator",
            json!({ "default": "Equal", "enum": ["Equal", "Exists"] }),
        ),
        (FLAVOR, "spec.tolerations[].effect", json!({ "enum": EFFECTS })),
        (FLAVOR, "spec.topologyName", name()),
        (&["Topology"], "spec.levels", plain_list(16)),
        (&["Topology"], "spec.levels[].nodeLabel", qualified()),
    ]
}

/// Workload: what Capstan writes keeps to these.
fn workloads() -> Vec<Bound> {
    const WORKLOAD: &[&str] = &["Workload"];
    let short = || json!({ "maxLength": 253 });
    vec![
        (WORKLOAD, "spec.queueName", name_or_none()),
        (WORKLOAD, "spec.priorityClassRef.group", short()),
        (WORKLOAD, "spec.priorityClassRef.kind", json!({ "maxLength": 63 })),
        (WORKLOAD, "spec.priorityClassRef.name", short()),
        (WORKLOAD, "spec.podSets", map_of("name", workload::POD_SETS_MAX)),
        (
            WORKLOAD,
            "spec.podSets[].name",
            json!({ "minLength": 1, "maxLength": workload::POD_SET_MAX }),
        ),
        (WORKLOAD, "spec.podSets[].count", json!({ "minimum": 0 })),
        (WORKLOAD, "spec.podSets[].minCount", json!({ "minimum": 0 })),
        (WORKLOAD, "status.nodes", plain_list(workload::NAMES_MAX)),
        (WORKLOAD, "status.nodesSummary", json!({ "maxLength": 1_024 })),
        (WORKLOAD, "status.victims", plain_list(workload::NAMES_MAX)),
        (WORKLOAD, "status.flavors", json!({ "maxProperties": workload::POD_SETS_MAX })),
    ]
}

/// Lists that every status has: one entry for each type or name.
fn statuses() -> Vec<Bound> {
    vec![
        (CONDITIONS, "status.conditions", map_of("type", 16)),
        (USAGES, "status.flavorsReservation", map_of("name", 256)),
        (USAGES, "status.flavorsReservation[].resources", map_of("name", 256)),
        (USAGES, "status.flavorsUsage", map_of("name", 256)),
        (USAGES, "status.flavorsUsage[].resources", map_of("name", 256)),
    ]
}
