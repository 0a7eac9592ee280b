//! Queues, cohorts, flavors: from API objects to facts.
//!
//! Decides what an absent field means in our group and in Kueue's, and what becomes of objects
//! that stand in both groups. What an API server could hold but Kueue's webhooks would refuse is
//! marked as broken by [`rules`], never an error: the engine keeps such a queue inactive.

pub mod budget;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::Input;
use capstan_core::explain::quantity::per_unit;
use capstan_core::model::input::{
    BorrowThreshold, ClusterQueueFacts, CohortFacts, DeactivatedFacts, FlavorFacts, FlavorQuota,
    Fungibility, LocalQueueFacts, LocalQueueUsage, PreemptReclaim, PreemptWithin, PreemptionPolicy,
    QueueingStrategy, Quota, ResourceGroup, SpentFacts, StopPolicy, Text, Weight,
};
use capstan_core::time::Time;

use super::resolve::Resolved;
use super::selector;
use crate::api::cluster_queue as api;
use crate::api::flavor::{ResourceFlavorSpec, TopologySpec};
use crate::api::local_queue::LocalQueueSpec;
use crate::api::usage::LocalQueueFairSharingStatus;
use crate::quantity::Quantity;
use crate::read::error::Notice;
use crate::read::kinds::Origin;

/// What one queue object says.
#[derive(Clone, Debug, PartialEq)]
pub enum Draft {
    /// A ClusterQueue, with what its status says that it spent of its budget.
    ClusterQueue(ClusterQueueFacts, Option<SpentFacts>),
    /// A LocalQueue, with what its status says that it used of late.
    LocalQueue(LocalQueueFacts, Option<LocalQueueUsage>),
    /// A Cohort.
    Cohort(CohortFacts),
    /// A flavor.
    Flavor(FlavorFacts),
    /// A WorkloadPriorityClass: name and value.
    PriorityClass(Text, i32),
    /// A Topology: name and levels.
    Topology(Text, Vec<Text>),
    /// A Workload that may not run.
    Deactivated(DeactivatedFacts),
}

/// Queue objects with their origins.
#[derive(Debug, Default)]
pub struct Objects {
    /// ClusterQueues.
    pub cluster_queues: Vec<(Origin, ClusterQueueFacts)>,
    /// What their statuses say that they spent of their budgets.
    pub spent: Vec<SpentFacts>,
    /// LocalQueues.
    pub local_queues: Vec<(Origin, LocalQueueFacts)>,
    /// What their statuses say that they used of late.
    pub local_queue_usage: Vec<LocalQueueUsage>,
    /// Cohorts.
    pub cohorts: Vec<(Origin, CohortFacts)>,
    /// Flavors.
    pub flavors: Vec<(Origin, FlavorFacts)>,
    /// WorkloadPriorityClasses: name and value.
    pub workload_priority_classes: Vec<(Origin, Text, i32)>,
    /// Topologies: name and levels.
    pub topologies: Vec<(Origin, Text, Vec<Text>)>,
    /// Workloads that may not run.
    pub deactivated: Vec<DeactivatedFacts>,
}

impl Objects {
    /// Adds what one object says.
    pub fn take(&mut self, origin: Origin, draft: Draft) {
        match draft {
            Draft::ClusterQueue(queue, spent) => {
                self.cluster_queues.push((origin, queue));
                self.spent.extend(spent);
            }
            Draft::LocalQueue(queue, usage) => {
                self.local_queues.push((origin, queue));
                self.local_queue_usage.extend(usage);
            }
            Draft::Cohort(cohort) => self.cohorts.push((origin, cohort)),
            Draft::Flavor(flavor) => self.flavors.push((origin, flavor)),
            Draft::PriorityClass(name, value) => {
                self.workload_priority_classes.push((origin, name, value));
            }
            Draft::Topology(name, levels) => self.topologies.push((origin, name, levels)),
            Draft::Deactivated(workload) => self.deactivated.push(workload),
        }
    }

    /// Namespaces whose workloads queue unless they say otherwise.
    pub fn default_queues(&self) -> BTreeSet<Text> {
        let local = self.local_queues.iter().map(|(_, queue)| queue);
        let defaults = local.filter(|queue| &*queue.name == "default");
        defaults.map(|queue| queue.namespace.clone()).collect()
    }
}

/// The facts of a ClusterQueue.
pub fn cluster_queue(
    name: &str,
    spec: &api::ClusterQueueSpec,
    origin: Origin,
) -> ClusterQueueFacts {
    let mut broken = rules::cluster_queue(spec);
    let namespaces = match &spec.namespace_selector {
        Some(given) => {
            let (all, wrong) = selector::label_selector(given, "spec.namespaceSelector");
            broken.extend(wrong);
            Some(all)
        }
        None if origin.is_kueue() => None,
        None => Some(Vec::new()),
    };
    ClusterQueueFacts {
        name: name.into(),
        cohort: named(&spec.cohort_name),
        groups: groups(&spec.resource_groups),
        strategy: match spec.queueing_strategy {
            api::QueueingStrategy::StrictFIFO => QueueingStrategy::StrictFifo,
            api::QueueingStrategy::BestEffortFIFO => QueueingStrategy::BestEffortFifo,
        },
        namespaces,
        fungibility: fungibility(spec.flavor_fungibility.as_ref()),
        preemption: preemption(spec.preemption.as_ref()),
        stop: stop(spec.stop_policy),
        profile: named(&spec.scoring_profile),
        weight: weight(spec.fair_sharing.as_ref()),
        usage_based: spec.admission_scope.as_ref().is_some_and(|scope| {
            scope.admission_mode == api::AdmissionMode::UsageBasedAdmissionFairSharing
        }),
        spending: spec.budget.as_ref().and_then(budget::limit),
        broken: broken.into_iter().map(Text::from).collect(),
        deleted: None,
    }
}

fn named(name: &Option<String>) -> Option<Text> {
    name.as_deref().filter(|name| !name.is_empty()).map(Text::from)
}

fn stop(policy: Option<api::StopPolicy>) -> StopPolicy {
    match policy {
        None | Some(api::StopPolicy::None) => StopPolicy::None,
        Some(api::StopPolicy::Hold) => StopPolicy::Hold,
        Some(api::StopPolicy::HoldAndDrain) => StopPolicy::HoldAndDrain,
    }
}

/// A weight that breaks the rules is none: the queue, or all below the cohort, is inactive.
fn weight(given: Option<&api::FairSharing>) -> Weight {
    let weight = given.and_then(|sharing| sharing.weight);
    weight.map_or(Weight::ONE, |weight| Weight(weight.nano().clamp(0, u64::MAX.into()) as u64))
}

fn groups(groups: &[api::ResourceGroup]) -> Vec<ResourceGroup> {
    let quota = |resource: &api::ResourceQuota| {
        let amount = |quantity: Quantity| quantity.amount_of(&resource.name).max(0);
        let quota = Quota {
            nominal: amount(resource.nominal_quota),
            borrowing: resource.borrowing_limit.map(amount),
            lending: resource.lending_limit.map(amount),
        };
        (Text::from(resource.name.as_str()), quota)
    };
    let flavor = |flavor: &api::FlavorQuotas| FlavorQuota {
        flavor: flavor.name.as_str().into(),
        resources: flavor.resources.iter().map(quota).collect(),
    };
    groups
        .iter()
        .map(|group| ResourceGroup {
            covered: group.covered_resources.iter().map(|name| name.as_str().into()).collect(),
            flavors: group.flavors.iter().map(flavor).collect(),
        })
        .collect()
}

fn fungibility(given: Option<&api::FlavorFungibility>) -> Fungibility {
    let next = Some(api::FungibilityPolicy::TryNextFlavor);
    let stop = Some(api::FungibilityPolicy::MayStopSearch);
    Fungibility {
        next_when_borrowing: given.is_some_and(|given| given.when_can_borrow == next),
        next_when_preempting: given.is_none_or(|given| given.when_can_preempt != stop),
        prefer_preemption_over_borrowing: given.is_some_and(|given| {
            given.preference == Some(api::FungibilityPreference::PreemptionOverBorrowing)
        }),
    }
}

fn preemption(given: Option<&api::Preemption>) -> PreemptionPolicy {
    let given = given.cloned().unwrap_or_default();
    let while_borrowing = given
        .borrow_within_cohort
        .filter(|borrow| borrow.policy == api::BorrowWithinCohortPolicy::LowerPriority)
        .map(|borrow| BorrowThreshold { max_priority: borrow.max_priority_threshold });
    PreemptionPolicy {
        within_cluster_queue: match given.within_cluster_queue {
            api::WithinClusterQueue::Never => PreemptWithin::Never,
            api::WithinClusterQueue::LowerPriority => PreemptWithin::LowerPriority,
            api::WithinClusterQueue::LowerOrNewerEqualPriority => PreemptWithin::LowerOrNewerEqual,
        },
        reclaim: match given.reclaim_within_cohort {
            api::ReclaimWithinCohort::Never => PreemptReclaim::Never,
            api::ReclaimWithinCohort::LowerPriority => PreemptReclaim::LowerPriority,
            api::ReclaimWithinCohort::Any => PreemptReclaim::Any,
        },
        while_borrowing,
    }
}

/// The facts of a Cohort.
pub fn cohort(name: &str, spec: &api::CohortSpec) -> CohortFacts {
    CohortFacts {
        name: name.into(),
        parent: named(&spec.parent_name),
        groups: groups(&spec.resource_groups),
        weight: weight(spec.fair_sharing.as_ref()),
        broken: rules::cohort(spec).into_iter().map(Text::from).collect(),
    }
}

/// The facts of a LocalQueue.
pub fn local_queue(namespace: Text, name: &str, spec: &LocalQueueSpec) -> LocalQueueFacts {
    LocalQueueFacts {
        namespace,
        name: name.into(),
        cluster_queue: spec.cluster_queue.as_str().into(),
        stop: stop(spec.stop_policy),
        weight: weight(spec.fair_sharing.as_ref()),
        broken: rules::local_queue(spec).into_iter().map(Text::from).collect(),
    }
}

/// What the status of a LocalQueue says that it used of late.
pub fn local_queue_usage(
    namespace: Text,
    name: &str,
    shared: Option<&LocalQueueFairSharingStatus>,
) -> Option<LocalQueueUsage> {
    let known = shared?.admission_fair_sharing_status.as_ref()?;
    let amount = |(name, amount): (&String, &Quantity)| {
        let part = 1_000_000 / i128::from(per_unit(name));
        let thousandths = i64::try_from(amount.nano() / part).unwrap_or(i64::MAX);
        (Text::from(name.as_str()), thousandths)
    };
    Some(LocalQueueUsage {
        namespace,
        name: name.into(),
        consumed: known.consumed_resources.iter().map(amount).collect(),
        at: Time(known.last_update.as_ref()?.0.as_millisecond()),
    })
}

/// What a Workload says that may not run.
pub fn deactivated(namespace: Text, name: &str, owners: Vec<Text>) -> DeactivatedFacts {
    DeactivatedFacts { namespace, name: name.into(), owners }
}

/// The facts of a ResourceFlavor.
pub fn flavor(name: &str, spec: &ResourceFlavorSpec) -> FlavorFacts {
    FlavorFacts {
        name: name.into(),
        node_labels: selector::pairs(&spec.node_labels),
        taints: selector::taints(&spec.node_taints),
        tolerations: selector::tolerations(&spec.tolerations),
        topology: named(&spec.topology_name),
        levels: Vec::new(),
        broken: rules::flavor(spec).into_iter().map(Text::from).collect(),
    }
}

/// Levels of a Topology, and what is wrong with them.
pub fn topology(spec: &TopologySpec) -> (Vec<Text>, Vec<String>) {
    let levels = spec.levels.iter().map(|level| level.node_label.as_str().into()).collect();
    (levels, rules::topology(spec))
}

/// Facts in the order in which others refer to them; one for each name.
pub fn inputs(objects: Objects, resolved: &mut Resolved) {
    let flavors = by_name(objects.flavors, |flavor| flavor.name.clone());
    for (name, mut twins) in flavors {
        let two = twins.len() > 1 && twins.iter().any(|twin| *twin != twins[0]);
        let mut flavor = twins.swap_remove(0);
        if two {
            flavor.broken.insert(0, duplicate("DuplicateFlavor", "ResourceFlavor", &name));
        }
        resolved.inputs.push(Input::Flavor(flavor));
    }
    let topologies = objects.topologies.into_iter().map(|(o, name, levels)| (o, (name, levels)));
    for (name, twins) in by_name(topologies.collect(), |(name, _)| name.clone()) {
        first_of(&twins, "Topology", &name, resolved);
        let levels = twins.into_iter().next().map(|(_, levels)| levels).unwrap_or_default();
        resolved.inputs.push(Input::Topology { name, levels });
    }
    let classes =
        objects.workload_priority_classes.into_iter().map(|(o, name, value)| (o, (name, value)));
    for (name, twins) in by_name(classes.collect(), |(name, _)| name.clone()) {
        first_of(&twins, "WorkloadPriorityClass", &name, resolved);
        let value = twins[0].1;
        resolved.inputs.push(Input::WorkloadPriorityClass { name, value });
    }
    for (name, mut twins) in by_name(objects.cohorts, |cohort| cohort.name.clone()) {
        let two = twins.len() > 1;
        let mut cohort = twins.swap_remove(0);
        if two {
            cohort.broken.insert(0, duplicate("DuplicateCohort", "Cohort", &name));
        }
        resolved.inputs.push(Input::Cohort(cohort));
    }
    for (name, mut twins) in by_name(objects.cluster_queues, |queue| queue.name.clone()) {
        // Whoever deletes one of two says which of them is meant.
        if twins.iter().any(|queue| queue.deleted.is_none()) {
            twins.retain(|queue| queue.deleted.is_none());
        }
        let two = twins.len() > 1;
        let mut queue = twins.swap_remove(0);
        if two {
            queue.broken.insert(0, duplicate("DuplicateQueue", "ClusterQueue", &name));
        }
        resolved.inputs.push(Input::ClusterQueue(queue));
    }
    let key = |queue: &LocalQueueFacts| (queue.namespace.clone(), queue.name.clone());
    for ((namespace, name), mut twins) in by_name(objects.local_queues, key) {
        let two = twins.len() > 1;
        let mut queue = twins.swap_remove(0);
        if two {
            let full = format!("{namespace}/{name}");
            let notice = duplicate("DuplicateQueue", "LocalQueue", &full);
            resolved.notices.push(Notice::overall(format!("{notice}; until then it is inactive")));
            queue.broken.insert(0, notice);
        }
        resolved.inputs.push(Input::LocalQueue(queue));
    }
    let usage = objects.local_queue_usage.into_iter().map(Input::LocalQueueUsed);
    resolved.inputs.extend(usage);
    resolved.inputs.extend(objects.spent.into_iter().map(Input::Spent));
    resolved.inputs.extend(objects.deactivated.into_iter().map(Input::Deactivated));
}

/// Objects of one name together, our own group's first.
fn by_name<T, K: Ord>(mut list: Vec<(Origin, T)>, key: impl Fn(&T) -> K) -> BTreeMap<K, Vec<T>> {
    list.sort_by_key(|(origin, _)| *origin);
    let mut named: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for (_, object) in list {
        named.entry(key(&object)).or_default().push(object);
    }
    named
}

/// Says that the first of two unequal objects was taken.
fn first_of<T: PartialEq>(twins: &[T], kind: &str, name: &str, resolved: &mut Resolved) {
    if twins.iter().any(|twin| *twin != twins[0]) {
        resolved.notices.push(Notice::overall(format!(
            "{kind} {name} is in capstan.sh and in kueue.x-k8s.io; the one of capstan.sh was taken"
        )));
    }
}

fn duplicate(word: &str, kind: &str, name: &str) -> Text {
    format!("{word}: {kind} {name} is in capstan.sh and in kueue.x-k8s.io; delete one").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(super) fn queue(spec: Value) -> ClusterQueueFacts {
        let spec = serde_json::from_value(spec).expect("spec");
        cluster_queue("q", &spec, Origin::Capstan)
    }

    #[test]
    fn kueues_defaults_hold() {
        let queue = queue(json!({}));
        assert_eq!(queue.strategy, QueueingStrategy::BestEffortFifo);
        let fungibility = queue.fungibility;
        assert!(!fungibility.next_when_borrowing && fungibility.next_when_preempting);
        assert_eq!(queue.preemption.within_cluster_queue, PreemptWithin::Never);
        assert_eq!(queue.preemption.reclaim, PreemptReclaim::Never);
        assert_eq!(queue.preemption.while_borrowing, None);
        assert!(queue.stop == StopPolicy::None && queue.broken.is_empty());
    }

    #[test]
    fn an_absent_selector_is_all_in_our_group_and_nothing_in_kueues() {
        let spec = api::ClusterQueueSpec::default();
        assert_eq!(cluster_queue("q", &spec, Origin::Capstan).namespaces, Some(Vec::new()));
        assert_eq!(cluster_queue("q", &spec, Origin::KueueV1Beta2).namespaces, None);
        let spec = serde_json::from_value(json!({ "namespaceSelector": {} })).expect("spec");
        assert_eq!(cluster_queue("q", &spec, Origin::KueueV1Beta2).namespaces, Some(Vec::new()));
    }

    #[test]
    fn quotas_are_in_the_engines_units_in_any_order() {
        let queue = queue(json!({ "cohortName": "c", "resourceGroups": [{
            "coveredResources": ["cpu", "memory"],
            "flavors": [{ "name": "f", "resources": [
                { "name": "memory", "nominalQuota": "1Gi", "lendingLimit": "1Mi" },
                { "name": "cpu", "nominalQuota": 2, "borrowingLimit": "500m" },
            ]}],
        }]}));
        assert_eq!(queue.broken, Vec::<Text>::new());
        let resources = &queue.groups[0].flavors[0].resources;
        let cpu = Quota { nominal: 2_000, borrowing: Some(500), lending: None };
        assert_eq!(resources.get("cpu"), Some(&cpu));
        let memory = Quota { nominal: 1 << 30, borrowing: None, lending: Some(1 << 20) };
        assert_eq!(resources.get("memory"), Some(&memory));
    }

    #[test]
    fn quota_of_money_is_in_dollars_an_hour() {
        let money = "capstan.sh/usd-per-hour";
        let quota = |nominal: Value| {
            let queue = queue(json!({ "cohortName": "c", "resourceGroups": [{
                "coveredResources": [money],
                "flavors": [{ "name": "f", "resources": [
                    { "name": money, "nominalQuota": nominal, "borrowingLimit": "0.000001" },
                ]}],
            }]}));
            (queue.groups[0].flavors[0].resources.get(money).copied(), queue.broken)
        };
        let of = |nominal: i64| Some(Quota { nominal, borrowing: Some(1), lending: None });
        assert_eq!(quota(json!(12.50)), (of(12_500_000), Vec::new()));
        assert_eq!(quota(json!("100")), (of(100_000_000), Vec::new()));
        assert_eq!(quota(json!("1e30")), (of(i64::MAX), Vec::new()));
        let (below, broken) = quota(json!(-5));
        assert_eq!(below, of(0));
        assert!(broken[0].ends_with("nominalQuota: below zero; use 0 or more"), "{broken:?}");
    }

    #[test]
    fn a_name_in_both_groups_makes_both_inactive() {
        let spec = api::ClusterQueueSpec::default();
        let local = |origin| (origin, local_queue("ns".into(), "l", &LocalQueueSpec::default()));
        let objects = Objects {
            cluster_queues: vec![
                (Origin::KueueV1Beta1, cluster_queue("q", &spec, Origin::KueueV1Beta1)),
                (Origin::Capstan, cluster_queue("q", &spec, Origin::Capstan)),
            ],
            local_queues: vec![local(Origin::Capstan), local(Origin::KueueV1Beta2)],
            ..Objects::default()
        };
        let mut resolved = Resolved::default();
        inputs(objects, &mut resolved);
        assert_eq!(resolved.inputs.len(), 2);
        let Input::ClusterQueue(queue) = &resolved.inputs[0] else { panic!("a ClusterQueue") };
        assert!(queue.broken[0].starts_with("DuplicateQueue: ClusterQueue q"));
        let Input::LocalQueue(queue) = &resolved.inputs[1] else { panic!("a LocalQueue") };
        assert!(queue.broken[0].starts_with("DuplicateQueue: LocalQueue ns/l is in"));
        assert!(queue.stop == StopPolicy::None && resolved.notices.len() == 1);
    }
}
