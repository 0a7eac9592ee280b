//! The rules of Kueue's webhooks, which an API server alone does not enforce.
//!
//! Each complaint names the field and what would mend it. The order of resources in a flavor is
//! no rule.

use std::collections::BTreeSet;

use capstan_core::policy::LEVELS_MAX;
use capstan_core::time::Span;

use crate::api::cluster_queue::{
    BorrowWithinCohortPolicy, Budget, ClusterQueueSpec, CohortSpec, FairSharing, FungibilityPolicy,
    ReclaimWithinCohort, ResourceGroup, ResourceQuota,
};
use crate::api::flavor::{ResourceFlavorSpec, TopologySpec};
use crate::api::local_queue::LocalQueueSpec;
use crate::convert::selector;
use crate::quantity::Quantity;
use crate::read::names;

/// Totals that Kueue allows in one object.
const FLAVORS_MAX: usize = 256;
const RESOURCES_MAX: usize = 256;
const PAIRS_MAX: usize = 512;

/// What bounds a quota of this object: whether it may borrow at all, and lend more than it owns.
#[derive(Clone, Copy)]
struct Bounds {
    /// Words for what limits need, if that is absent.
    lacks: Option<&'static str>,
    lends_own_only: bool,
}

/// What a ClusterQueue breaks.
pub fn cluster_queue(spec: &ClusterQueueSpec) -> Vec<String> {
    let alone = spec.cohort_name.as_deref().is_none_or(str::is_empty);
    let bounds = Bounds {
        lacks: alone.then_some("a cohort; set spec.cohortName or remove the limit"),
        lends_own_only: true,
    };
    let mut broken = groups(&spec.resource_groups, bounds);
    named("spec.cohortName", &spec.cohort_name, &mut broken);
    fungibility(spec, &mut broken);
    if let Some(preemption) = &spec.preemption {
        let borrows = preemption
            .borrow_within_cohort
            .as_ref()
            .is_some_and(|borrow| borrow.policy != BorrowWithinCohortPolicy::Never);
        if borrows && preemption.reclaim_within_cohort == ReclaimWithinCohort::Never {
            broken.push(
                "spec.preemption.borrowWithinCohort: needs reclaimWithinCohort other than Never"
                    .to_owned(),
            );
        }
        for (field, time) in [("minRuntime", preemption.min_runtime), ("delay", preemption.delay)] {
            if time.is_some_and(|time| time.0 < Span::default()) {
                broken.push(format!("spec.preemption.{field}: below zero; use 0 or more"));
            }
        }
    }
    weight(spec.fair_sharing.as_ref(), &mut broken);
    if let Some(given) = &spec.budget {
        budget(given, &mut broken);
    }
    broken
}

/// What a Cohort breaks. Its subtree may have more than its own quota, and lend that.
pub fn cohort(spec: &CohortSpec) -> Vec<String> {
    let root = spec.parent_name.as_deref().is_none_or(str::is_empty);
    let bounds = Bounds {
        lacks: root.then_some("a parent; set spec.parentName or remove the limit"),
        lends_own_only: false,
    };
    let mut broken = groups(&spec.resource_groups, bounds);
    named("spec.parentName", &spec.parent_name, &mut broken);
    weight(spec.fair_sharing.as_ref(), &mut broken);
    broken
}

/// What a LocalQueue breaks.
pub fn local_queue(spec: &LocalQueueSpec) -> Vec<String> {
    let mut broken = Vec::new();
    if spec.cluster_queue.is_empty() {
        broken.push("spec.clusterQueue: missing; name a ClusterQueue".to_owned());
    }
    weight(spec.fair_sharing.as_ref(), &mut broken);
    broken
}

/// What no object can be called.
fn named(at: &str, name: &Option<String>, broken: &mut Vec<String>) {
    let given = name.as_deref().filter(|name| !name.is_empty());
    broken.extend(given.and_then(names::subdomain).map(|problem| format!("{at}: {problem}")));
}

fn fungibility(spec: &ClusterQueueSpec, broken: &mut Vec<String>) {
    let Some(given) = &spec.flavor_fungibility else { return };
    let next = FungibilityPolicy::TryNextFlavor;
    let both = given.when_can_borrow == Some(next)
        && given.when_can_preempt.is_none_or(|policy| policy == next);
    if given.preference.is_some() && !both {
        broken.push(
            "spec.flavorFungibility.preference: needs whenCanBorrow and whenCanPreempt to be \
             TryNextFlavor"
                .to_owned(),
        );
    }
}

fn weight(given: Option<&FairSharing>, broken: &mut Vec<String>) {
    let Some(weight) = given.and_then(|sharing| sharing.weight) else { return };
    if weight.is_negative() || (weight != Quantity::default() && weight <= Quantity::SMALLEST) {
        broken.push(format!(
            "spec.fairSharing.weight: {weight} is neither 0 nor above 1n; use 0 or more"
        ));
    }
}

fn budget(given: &Budget, broken: &mut Vec<String>) {
    if given.usd.is_none() && given.gpu_hours.is_none() {
        broken.push("spec.budget: no amount; set usd or gpuHours".to_owned());
    }
    for (field, amount) in [("usd", given.usd), ("gpuHours", given.gpu_hours)] {
        if amount.is_some_and(Quantity::is_negative) {
            broken.push(format!("spec.budget.{field}: below zero; use 0 or more"));
        }
    }
}

fn groups(groups: &[ResourceGroup], bounds: Bounds) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut flavors, mut resources) = (BTreeSet::new(), BTreeSet::new());
    for (index, group) in groups.iter().enumerate() {
        let at = format!("spec.resourceGroups[{index}]");
        let mut covered = BTreeSet::new();
        for (place, resource) in group.covered_resources.iter().enumerate() {
            covered.insert(resource.as_str());
            if !selector::is_label_key(resource) {
                broken.push(format!(
                    "{at}.coveredResources[{place}]: {resource:?} is no name of a resource; write \
                     name or domain/name"
                ));
            }
            if !resources.insert(resource.as_str()) {
                broken.push(format!(
                    "{at}.coveredResources[{place}]: {resource} is covered twice; cover it once"
                ));
            }
        }
        for (place, flavor) in group.flavors.iter().enumerate() {
            let at = format!("{at}.flavors[{place}]");
            if !flavors.insert(flavor.name.as_str()) {
                broken.push(format!(
                    "{at}.name: flavor {} is listed twice; list it once",
                    flavor.name
                ));
            }
            same_resources(&flavor.resources, &covered, &at, &mut broken);
            for (slot, resource) in flavor.resources.iter().enumerate() {
                quota(resource, bounds, &format!("{at}.resources[{slot}]"), &mut broken);
            }
        }
        let pairs = group.flavors.len() * covered.len();
        if pairs > PAIRS_MAX {
            broken.push(format!("{at}: {pairs} quotas, at most {PAIRS_MAX} are allowed"));
        }
    }
    for (what, count, most) in
        [("flavors", flavors.len(), FLAVORS_MAX), ("resources", resources.len(), RESOURCES_MAX)]
    {
        if count > most {
            broken.push(format!("spec.resourceGroups: {count} {what}, at most {most} are allowed"));
        }
    }
    broken
}

/// A flavor lists each covered resource once and no other.
fn same_resources(
    listed: &[ResourceQuota],
    covered: &BTreeSet<&str>,
    at: &str,
    broken: &mut Vec<String>,
) {
    let mut seen = BTreeSet::new();
    for (slot, resource) in listed.iter().enumerate() {
        let name = resource.name.as_str();
        if !covered.contains(name) {
            broken.push(format!(
                "{at}.resources[{slot}].name: {name} is not in coveredResources; add it there"
            ));
        } else if !seen.insert(name) {
            broken.push(format!("{at}.resources[{slot}].name: {name} is listed twice"));
        }
    }
    for missing in covered.difference(&seen) {
        broken.push(format!("{at}.resources: {missing} is covered but missing; add its quota"));
    }
}

fn quota(resource: &ResourceQuota, bounds: Bounds, at: &str, broken: &mut Vec<String>) {
    let limits =
        [("borrowingLimit", resource.borrowing_limit), ("lendingLimit", resource.lending_limit)];
    if resource.nominal_quota.is_negative() {
        broken.push(format!("{at}.nominalQuota: below zero; use 0 or more"));
    }
    for (field, limit) in limits {
        let Some(limit) = limit else { continue };
        if limit.is_negative() {
            broken.push(format!("{at}.{field}: below zero; use 0 or more"));
        }
        if let Some(lacks) = bounds.lacks {
            broken.push(format!("{at}.{field}: needs {lacks}"));
        }
    }
    if let Some(lending) = resource.lending_limit
        && bounds.lends_own_only
        && lending > resource.nominal_quota
    {
        broken.push(format!(
            "{at}.lendingLimit: {lending} is above nominalQuota {}; lower it",
            resource.nominal_quota
        ));
    }
}

/// What a ResourceFlavor breaks.
pub fn flavor(spec: &ResourceFlavorSpec) -> Vec<String> {
    let mut broken = Vec::new();
    for (key, value) in &spec.node_labels {
        label("spec.nodeLabels", (key, value), &mut broken);
    }
    let mut seen = BTreeSet::new();
    for (index, taint) in spec.node_taints.iter().enumerate() {
        let at = format!("spec.nodeTaints[{index}]");
        label(&at, (&taint.key, taint.value.as_deref().unwrap_or_default()), &mut broken);
        if selector::effect(&taint.effect).is_none() {
            broken.push(format!(
                "{at}.effect: {:?} is none of NoSchedule, PreferNoSchedule, NoExecute",
                taint.effect
            ));
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            broken.push(format!("{at}: {} with this effect is listed twice", taint.key));
        }
    }
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        let at = format!("spec.tolerations[{index}]");
        let empty = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
        let key = toleration.key.as_deref().filter(|key| !key.is_empty());
        let value = toleration.value.as_deref().unwrap_or_default();
        key.into_iter().for_each(|key| label(&at, (key, value), &mut broken));
        let operator = toleration.operator.as_deref().unwrap_or_default();
        match operator {
            "Exists" if !empty(&toleration.value) => {
                broken.push(format!("{at}.value: must be empty for operator Exists"));
            }
            "" | "Equal" if empty(&toleration.key) => {
                broken.push(format!("{at}.operator: must be Exists where key is empty"));
            }
            "" | "Equal" | "Exists" => {}
            other => broken.push(format!("{at}.operator: {other:?} is none of Equal, Exists")),
        }
        let effect = toleration.effect.as_deref().unwrap_or_default();
        if !effect.is_empty() && selector::effect(effect).is_none() {
            broken.push(format!(
                "{at}.effect: {effect:?} is none of NoSchedule, PreferNoSchedule, NoExecute"
            ));
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            broken.push(format!("{at}.tolerationSeconds: needs effect NoExecute"));
        }
    }
    if spec.topology_name.is_some() && spec.node_labels.is_empty() {
        broken.push("spec.topologyName: needs at least one nodeLabel".to_owned());
    }
    broken
}

/// What is no label key, or no value of one: no node could have it.
fn label(at: &str, (key, value): (&str, &str), broken: &mut Vec<String>) {
    broken.extend(selector::wrong_key(at, key));
    broken.extend(selector::wrong_value(at, value));
}

/// What a Topology breaks.
pub fn topology(spec: &TopologySpec) -> Vec<String> {
    let mut broken = Vec::new();
    if spec.levels.is_empty() {
        broken.push("spec.levels: empty; name at least one node label".to_owned());
    }
    if spec.levels.len() > LEVELS_MAX {
        let count = spec.levels.len();
        broken.push(format!("spec.levels: {count} levels; the first {LEVELS_MAX} count"));
    }
    let mut seen = BTreeSet::new();
    for (index, level) in spec.levels.iter().enumerate() {
        let at = format!("spec.levels[{index}].nodeLabel");
        if !seen.insert(&level.node_label) {
            broken.push(format!("{at}: {} is listed twice", level.node_label));
        }
        if level.node_label == "kubernetes.io/hostname" && index + 1 < spec.levels.len() {
            broken.push(format!("{at}: kubernetes.io/hostname must be the last level"));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn queue(spec: Value) -> Vec<String> {
        cluster_queue(&serde_json::from_value(spec).expect("spec"))
    }

    fn one_quota(resource: Value) -> Value {
        json!([{ "coveredResources": ["cpu"],
            "flavors": [{ "name": "f", "resources": [resource] }] }])
    }

    #[test]
    fn limits_need_a_cohort_and_lending_stays_below_nominal() {
        let quota = json!({ "name": "cpu", "nominalQuota": 2, "lendingLimit": 3,
            "borrowingLimit": "-1" });
        let at = "spec.resourceGroups[0].flavors[0].resources[0]";
        let cohort = "a cohort; set spec.cohortName or remove the limit";
        assert_eq!(
            queue(json!({ "resourceGroups": one_quota(quota.clone()) })),
            [
                format!("{at}.borrowingLimit: below zero; use 0 or more"),
                format!("{at}.borrowingLimit: needs {cohort}"),
                format!("{at}.lendingLimit: needs {cohort}"),
                format!("{at}.lendingLimit: 3 is above nominalQuota 2; lower it"),
            ]
        );
        let spec = json!({ "parentName": "p", "resourceGroups":
            one_quota(json!({ "name": "cpu", "nominalQuota": 2, "lendingLimit": 3 })) });
        assert_eq!(cohort_broken(spec), Vec::<String>::new());
    }

    fn cohort_broken(spec: Value) -> Vec<String> {
        cohort(&serde_json::from_value(spec).expect("spec"))
    }

    #[test]
    fn limits_of_a_cohort_need_a_parent() {
        let quota = json!({ "name": "cpu", "nominalQuota": 2, "lendingLimit": 1 });
        let broken = cohort_broken(json!({ "resourceGroups": one_quota(quota) }));
        assert_eq!(broken.len(), 1);
        assert!(broken[0].contains("spec.parentName"));
    }

    #[test]
    fn names_that_nothing_can_have_are_told() {
        let resource = json!({ "name": "cpu ", "nominalQuota": 1 });
        let groups = json!([{ "coveredResources": ["cpu "],
            "flavors": [{ "name": "f", "resources": [resource] }] }]);
        let broken = queue(json!({ "cohortName": "A B", "resourceGroups": groups }));
        assert_eq!(broken.len(), 2, "{broken:?}");
        let want = "spec.resourceGroups[0].coveredResources[0]: \"cpu \" is no name of a resource; \
                    write name or domain/name";
        assert_eq!(broken[0], want);
        assert!(broken[1].starts_with("spec.cohortName: \"A B\" is no name"), "{broken:?}");
        let broken = cohort_broken(json!({ "parentName": "a/b" }));
        assert!(broken[0].starts_with("spec.parentName: \"a/b\" is no name"), "{broken:?}");
        let fine = json!({ "cohortName": "", "resourceGroups": one_quota(
            json!({ "name": "cpu", "nominalQuota": 1 })) });
        assert_eq!(queue(fine), Vec::<String>::new());
    }

    #[test]
    fn a_local_queue_names_its_queue_and_weighs_something() {
        let broken = |spec| local_queue(&serde_json::from_value(spec).expect("spec"));
        let weight =
            |weight: &str| json!({ "clusterQueue": "q", "fairSharing": { "weight": weight } });
        assert_eq!(
            broken(weight("-3")),
            ["spec.fairSharing.weight: -3 is neither 0 nor above 1n; use 0 or more"]
        );
        assert_eq!(broken(weight("0")), Vec::<String>::new());
        assert_eq!(broken(json!({})), ["spec.clusterQueue: missing; name a ClusterQueue"]);
    }

    #[test]
    fn flavors_list_exactly_what_is_covered_once() {
        let quota = |name: &str| json!({ "name": name, "nominalQuota": 1 });
        let broken = queue(json!({ "resourceGroups": [
            { "coveredResources": ["cpu", "memory"], "flavors": [
                { "name": "f", "resources": [quota("memory"), quota("cpu")] },
                { "name": "g", "resources": [quota("cpu"), quota("cpu"), quota("gpu")] },
            ]},
            { "coveredResources": ["cpu"], "flavors": [
                { "name": "f", "resources": [quota("cpu")] },
            ]},
        ]}));
        let group = "spec.resourceGroups[0].flavors[1].resources";
        assert_eq!(
            broken,
            [
                format!("{group}[1].name: cpu is listed twice"),
                format!("{group}[2].name: gpu is not in coveredResources; add it there"),
                format!("{group}: memory is covered but missing; add its quota"),
                "spec.resourceGroups[1].coveredResources[0]: cpu is covered twice; cover it once"
                    .to_owned(),
                "spec.resourceGroups[1].flavors[0].name: flavor f is listed twice; list it once"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn policies_must_agree() {
        let broken = queue(json!({
            "preemption": { "borrowWithinCohort": { "policy": "LowerPriority" } },
            "flavorFungibility": { "preference": "PreemptionOverBorrowing" },
            "fairSharing": { "weight": "-1" },
        }));
        assert_eq!(broken.len(), 3, "{broken:?}");
        let fine = queue(json!({
            "preemption": { "reclaimWithinCohort": "Any",
                "borrowWithinCohort": { "policy": "LowerPriority" } },
            "flavorFungibility": { "whenCanBorrow": "TryNextFlavor",
                "preference": "PreemptionOverBorrowing" },
        }));
        assert_eq!(fine, Vec::<String>::new());
    }

    #[test]
    fn taints_and_tolerations_of_flavors_are_checked() {
        let spec = json!({
            "topologyName": "t",
            "nodeTaints": [
                { "key": "a", "effect": "Never" },
                { "key": "b", "effect": "NoSchedule" },
                { "key": "b", "effect": "NoSchedule" },
            ],
            "tolerations": [
                { "operator": "Gt", "key": "k" },
                { "operator": "Exists", "value": "v" },
                { "value": "v" },
                { "key": "k", "tolerationSeconds": 3 },
            ],
        });
        let broken = flavor(&serde_json::from_value(spec).expect("spec"));
        assert_eq!(broken.len(), 7, "{broken:#?}");
    }

    #[test]
    fn labels_that_no_node_can_have_are_told() {
        let spec = json!({
            "nodeLabels": { "a b": "x", "fine.io/a_b": "", "v": "-x" },
            "nodeTaints": [{ "key": "/a", "value": "a b", "effect": "NoSchedule" }],
            "tolerations": [{ "key": "-", "operator": "Exists" }, { "operator": "Exists" }],
        });
        let broken = flavor(&serde_json::from_value(spec).expect("spec"));
        let told = [
            r#"spec.nodeLabels: "a b" is no label key; write name or domain/name"#,
            r#"spec.nodeLabels: "-x" is no value of a label"#,
            r#"spec.nodeTaints[0]: "/a" is no label key; write name or domain/name"#,
            r#"spec.nodeTaints[0]: "a b" is no value of a label"#,
            r#"spec.tolerations[0]: "-" is no label key; write name or domain/name"#,
        ];
        assert_eq!(broken, told);
    }

    #[test]
    fn the_host_is_the_last_level() {
        let level = |label: &str| json!({ "nodeLabel": label });
        let spec = json!({ "levels":
            [level("kubernetes.io/hostname"), level("rack"), level("rack")] });
        let broken = topology(&serde_json::from_value(spec).expect("spec"));
        assert_eq!(broken.len(), 2, "{broken:?}");
    }

    #[test]
    fn a_bad_operator_breaks_the_queue_only() {
        let spec = json!({ "namespaceSelector":
            { "matchExpressions": [{ "key": "a", "operator": "Like" }] } });
        let facts = super::super::tests::queue(spec);
        assert_eq!(facts.broken.len(), 1);
    }
}
