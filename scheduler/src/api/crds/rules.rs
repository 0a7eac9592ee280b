//! What an API server checks for us: one row for each rule of spec, in CEL.
//!
//! They are the rules of [`crate::convert::quota`], which still holds for objects from files and
//! of Kueue, and those that need the object before the change. Words are those of our reasons:
//! what is wrong, then what would mend it. That a flavor, resource, pod set or condition is
//! listed once in its list is left to the types of the lists in [`super::bounds`].

use serde_json::{Value, json};

use super::shape;

/// One rule.
struct Rule {
    kinds: &'static [&'static str],
    /// Where it holds.
    path: &'static str,
    /// Field that is named when it is broken, below `path`.
    field: &'static str,
    rule: &'static str,
    /// What is said; the fallback of `numbers`.
    message: &'static str,
    /// What is said where the object has numbers or names to tell: CEL.
    numbers: &'static str,
}

const ANY: Rule = Rule { kinds: &[], path: "", field: "", rule: "", message: "", numbers: "" };

const QUOTAS: &[&str] = &["ClusterQueue", "Cohort"];
const QUEUE: &[&str] = &["ClusterQueue"];
const COHORT: &[&str] = &["Cohort"];
const FLAVOR: &[&str] = &["ResourceFlavor"];
const TOPOLOGY: &[&str] = &["Topology"];
const BELOW_ZERO: &str = "below zero; use 0 or more";

const GROUPS: &str = "spec.resourceGroups";
const GROUP: &str = "spec.resourceGroups[]";
const QUOTA: &str = "spec.resourceGroups[].flavors[].resources[]";

/// Adds all rules of a kind to its schema.
pub fn apply(kind: &str, schema: &mut Value) {
    let tables = [QUOTA_RULES, POLICY_RULES, FLAVOR_RULES, OTHER_RULES];
    for rule in tables.into_iter().flatten().filter(|rule| rule.kinds.contains(&kind)) {
        let part = shape::at(schema, rule.path).expect("rules name fields that exist");
        let list = part.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        list.as_array_mut().expect("made above").push(written(rule));
    }
}

fn written(rule: &Rule) -> Value {
    let mut written = json!({ "rule": rule.rule, "message": rule.message });
    for (key, value) in [("messageExpression", rule.numbers), ("fieldPath", rule.field)] {
        if !value.is_empty() {
            written[key] = value.into();
        }
    }
    written
}

const QUOTA_RULES: &[Rule] = &[
    Rule {
        kinds: QUOTAS,
        path: QUOTA,
        field: ".nominalQuota",
        rule: "!quantity(string(self.nominalQuota)).isLessThan(quantity('0'))",
        message: BELOW_ZERO,
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: QUOTA,
        field: ".borrowingLimit",
        rule: "!has(self.borrowingLimit) || \
               !quantity(string(self.borrowingLimit)).isLessThan(quantity('0'))",
        message: BELOW_ZERO,
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: QUOTA,
        field: ".lendingLimit",
        rule: "!has(self.lendingLimit) || \
               !quantity(string(self.lendingLimit)).isLessThan(quantity('0'))",
        message: BELOW_ZERO,
        ..ANY
    },
    Rule {
        kinds: QUEUE,
        path: QUOTA,
        field: ".lendingLimit",
        rule: "!has(self.lendingLimit) || quantity(string(self.lendingLimit))\
               .compareTo(quantity(string(self.nominalQuota))) <= 0",
        message: "above nominalQuota; lower it",
        numbers: "string(self.lendingLimit) + ' is above nominalQuota ' + \
                  string(self.nominalQuota) + '; lower it'",
    },
    Rule {
        kinds: QUOTAS,
        path: GROUP,
        field: ".flavors",
        rule: "self.flavors.all(f, f.resources.all(r, r.name in self.coveredResources))",
        message: "a flavor has a quota for a resource that is not in coveredResources; add it \
                  there",
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: GROUP,
        field: ".flavors",
        rule: "self.flavors.all(f, f.resources.size() >= self.coveredResources.size())",
        message: "a flavor lacks the quota of a covered resource; add it",
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: GROUP,
        rule: "self.flavors.size() * self.coveredResources.size() <= 512",
        message: "more than 512 quotas in one group; split it",
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: GROUPS,
        rule: "self.all(a, a.flavors.size() == 0 || self.exists_one(b, \
               sets.intersects(a.flavors.map(f, f.name), b.flavors.map(f, f.name))))",
        message: "a flavor is listed in two groups; list it once",
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: GROUPS,
        rule: "self.all(a, a.coveredResources.size() == 0 || self.exists_one(b, \
               sets.intersects(a.coveredResources, b.coveredResources)))",
        message: "a resource is covered by two groups; cover it once",
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: GROUPS,
        rule: "self.map(g, g.flavors.size()).sum() <= 256",
        message: "more than 256 flavors; use fewer",
        ..ANY
    },
    Rule {
        kinds: QUOTAS,
        path: GROUPS,
        rule: "self.map(g, g.coveredResources.size()).sum() <= 256",
        message: "more than 256 resources; use fewer",
        ..ANY
    },
];

const POLICY_RULES: &[Rule] = &[
    Rule {
        kinds: QUEUE,
        path: "spec",
        field: ".resourceGroups",
        rule: "(has(self.cohortName) && self.cohortName != '') || !has(self.resourceGroups) || \
               self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, \
               !has(r.borrowingLimit))))",
        message: "borrowingLimit needs a cohort; set spec.cohortName or remove the limit",
        ..ANY
    },
    Rule {
        kinds: QUEUE,
        path: "spec",
        field: ".resourceGroups",
        rule: "(has(self.cohortName) && self.cohortName != '') || !has(self.resourceGroups) || \
               self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, \
               !has(r.lendingLimit))))",
        message: "lendingLimit needs a cohort; set spec.cohortName or remove the limit",
        ..ANY
    },
    Rule {
        kinds: COHORT,
        path: "spec",
        field: ".resourceGroups",
        rule: "(has(self.parentName) && self.parentName != '') || !has(self.resourceGroups) || \
               self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, \
               !has(r.borrowingLimit) && !has(r.lendingLimit))))",
        message: "borrowingLimit and lendingLimit need a parent; set spec.parentName or remove \
                  the limits",
        ..ANY
    },
    Rule {
        kinds: COHORT,
        path: "",
        field: ".spec.parentName",
        rule: "!has(self.spec) || !has(self.spec.parentName) || \
               self.spec.parentName != self.metadata.name",
        message: "the cohort is its own parent; name another or none",
        ..ANY
    },
    Rule {
        kinds: QUEUE,
        path: "spec.namespaceSelector.matchExpressions[]",
        field: ".values",
        rule: "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
        message: "In and NotIn need values, Exists and DoesNotExist have none",
        ..ANY
    },
    Rule {
        kinds: QUEUE,
        path: "spec.flavorFungibility",
        field: ".preference",
        rule: "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && \
               self.whenCanPreempt == 'TryNextFlavor')",
        message: "needs whenCanBorrow and whenCanPreempt to be TryNextFlavor",
        ..ANY
    },
    Rule {
        kinds: QUEUE,
        path: "spec.preemption",
        field: ".borrowWithinCohort",
        rule: "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || \
               self.borrowWithinCohort.policy == 'Never'",
        message: "needs reclaimWithinCohort other than Never",
        ..ANY
    },
    Rule {
        kinds: &["ClusterQueue", "Cohort", "LocalQueue"],
        path: "spec.fairSharing",
        field: ".weight",
        rule: "quantity(string(self.weight)).compareTo(quantity('0')) == 0 || \
               quantity(string(self.weight)).isGreaterThan(quantity('1n'))",
        message: "neither 0 nor above 1n; use 0 or more",
        numbers: "string(self.weight) + ' is neither 0 nor above 1n; use 0 or more'",
    },
    Rule {
        kinds: QUEUE,
        path: "spec.budget",
        rule: "has(self.usd) || has(self.gpuHours)",
        message: "no amount; set usd or gpuHours",
        ..ANY
    },
    Rule {
        kinds: QUEUE,
        path: "spec.budget",
        field: ".usd",
        rule: "!has(self.usd) || !quantity(string(self.usd)).isLessThan(quantity('0'))",
        message: BELOW_ZERO,
        ..ANY
    },
    Rule {
        kinds: QUEUE,
        path: "spec.budget",
        field: ".gpuHours",
        rule: "!has(self.gpuHours) || !quantity(string(self.gpuHours)).isLessThan(quantity('0'))",
        message: BELOW_ZERO,
        ..ANY
    },
];

const FLAVOR_RULES: &[Rule] = &[
    Rule {
        kinds: FLAVOR,
        path: "spec",
        field: ".topologyName",
        rule: "!has(self.topologyName) || (has(self.nodeLabels) && self.nodeLabels.size() > 0)",
        message: "needs at least one nodeLabel",
        ..ANY
    },
    Rule {
        kinds: FLAVOR,
        path: "",
        field: ".spec.topologyName",
        rule: "!has(oldSelf.spec) || !has(oldSelf.spec.topologyName) || (has(self.spec) && \
               has(self.spec.topologyName) && \
               self.spec.topologyName == oldSelf.spec.topologyName)",
        message: "cannot be changed or removed; make another flavor",
        numbers: "'cannot be changed or removed once it is ' + \
                  oldSelf.spec.topologyName + '; make another flavor'",
    },
    Rule {
        kinds: FLAVOR,
        path: "spec.nodeLabels",
        rule: concat!(
            "self.all(key, key.indexOf('/') <= 253 && ",
            "key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
            "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
        ),
        message: "a key is no label key; write name or domain/name",
        ..ANY
    },
    Rule {
        kinds: FLAVOR,
        path: "spec.nodeTaints",
        rule: "self.all(a, self.exists_one(b, a.key == b.key && a.effect == b.effect))",
        message: "a taint is listed twice with the same effect; list it once",
        ..ANY
    },
    Rule {
        kinds: FLAVOR,
        path: "spec.tolerations[]",
        field: ".key",
        rule: "(has(self.key) && self.key != '') || self.operator == 'Exists'",
        message: "empty, which only operator Exists allows",
        ..ANY
    },
    Rule {
        kinds: FLAVOR,
        path: "spec.tolerations[]",
        field: ".value",
        rule: "self.operator != 'Exists' || !has(self.value) || self.value == ''",
        message: "operator Exists has no value; remove it",
        ..ANY
    },
    Rule {
        kinds: FLAVOR,
        path: "spec.tolerations[]",
        field: ".tolerationSeconds",
        rule: "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        message: "needs effect NoExecute",
        ..ANY
    },
    Rule {
        kinds: TOPOLOGY,
        path: "spec.levels",
        rule: "self.all(a, self.exists_one(b, a.nodeLabel == b.nodeLabel))",
        message: "a level is listed twice; list it once",
        ..ANY
    },
    Rule {
        kinds: TOPOLOGY,
        path: "spec.levels",
        rule: "!self.exists(l, l.nodeLabel == 'kubernetes.io/hostname') || \
               self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'",
        message: "kubernetes.io/hostname must be the last level",
        ..ANY
    },
    Rule {
        kinds: TOPOLOGY,
        path: "spec.levels",
        rule: "self == oldSelf || (self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname' \
               && oldSelf[oldSelf.size() - 1].nodeLabel == 'kubernetes.io/hostname')",
        message: "levels can only change where kubernetes.io/hostname is the last, before and \
                  after; make another Topology",
        ..ANY
    },
];

const OTHER_RULES: &[Rule] = &[
    Rule {
        kinds: &["LocalQueue"],
        path: "spec.clusterQueue",
        rule: "self == oldSelf",
        message: "cannot be changed; make another LocalQueue",
        numbers: "'cannot be changed from ' + oldSelf + '; make another LocalQueue'",
        ..ANY
    },
    Rule {
        kinds: &["Workload"],
        path: "spec.podSets[]",
        field: ".minCount",
        rule: "!has(self.minCount) || self.minCount <= self.count",
        message: "above count; lower it",
        ..ANY
    },
];
