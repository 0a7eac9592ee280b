//! From the file to the frozen configuration.
//!
//! Decides defaults, and what must hold between fields. Types, ranges and unknown fields were
//! checked against the schema before. Collects every error.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{CapacityType, Text};
use capstan_core::money::MicroUsd;
use capstan_core::policy::{self, LEVELS_MAX, Policy, Reserving, RuleArgs, UsageSharing};
use capstan_core::score::Weights;
use capstan_core::time::Span;

use super::file::{
    AdmissionFairSharing, CapacityTypeName, CapstanConfiguration, FairSharing, PreemptionStrategy,
    Profile, QuotaApiName, Reservations, Rules, UnqueuedWorkloads,
};
use super::prices::{CapacityLabel, PriceConfig, PriceEntry};
use super::{Config, QuotaApi, gates, quota, readiness};
use crate::api::GoDuration;
use crate::convert::selector;
use crate::quantity::Quantity;
use crate::read::names;
use crate::read::schema::{field, nearest};

/// A path and what is wrong there.
pub type Finding = (String, String);

/// The frozen configuration and what is worth knowing about it, or everything that is wrong.
pub fn validate(file: CapstanConfiguration) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
    let mut errors = Vec::new();
    let defaults = Policy::default();
    let backoff_first = seconds(file.pod_initial_backoff_seconds, defaults.backoff_first);
    let backoff_max =
        seconds(file.pod_max_backoff_seconds, defaults.backoff_max.max(backoff_first));
    if backoff_max < backoff_first {
        let problem = "below podInitialBackoffSeconds; raise it";
        errors.push(("podMaxBackoffSeconds".to_owned(), problem.to_owned()));
    }
    let mut policy = Policy {
        unqueued: match file.unqueued_workloads {
            Some(UnqueuedWorkloads::Hold) => policy::UnqueuedWorkloads::Hold,
            Some(UnqueuedWorkloads::Allow) | None => policy::UnqueuedWorkloads::Allow,
        },
        levels: levels(file.topology.levels.as_deref(), &mut errors),
        quota: quota::args(&file.resources, &mut errors),
        fair_sharing: fair_sharing(file.fair_sharing.as_ref(), &mut errors),
        usage_sharing: usage_sharing(file.admission_fair_sharing.as_ref(), &mut errors),
        rules: rules(&file.rules),
        backoff_first,
        backoff_max,
        recovery_timeout: readiness::recovery_timeout(&file, defaults.recovery_timeout),
        pods_ready: readiness::pods_ready(&file, &mut errors),
        reservations: reservations(&file.reservations),
        volume_timeout: volume_timeout(&file.rules, defaults.volume_timeout, &mut errors),
        device_timeout: device_timeout(&file.rules, defaults.device_timeout),
        ..defaults
    };
    for (name, profile) in &file.profiles {
        policy.profiles.insert(name.as_str().into(), weights(profile));
    }
    gates_of(&file, &mut policy.rules, &mut errors);
    durations(&file, &mut errors);
    let scheduler_name = file.scheduler_name.as_deref().unwrap_or("capstan");
    // Workloads bear it as a label.
    if scheduler_name.is_empty() || !selector::is_label_value(scheduler_name) {
        let problem = "must be a name such as capstan, and fit a label";
        errors.push(("schedulerName".to_owned(), problem.to_owned()));
    }
    lease(&file, scheduler_name, &mut errors);
    let config = Config {
        scheduler_name: scheduler_name.into(),
        quota_apis: quota_apis(file.quota_apis.as_deref(), &mut errors),
        prices: prices(&file, &mut errors),
        feature_gates: file.feature_gates.clone(),
        policy,
        warnings: Vec::new(),
        file,
    };
    let warnings = unused(&config.file);
    if errors.is_empty() { Ok((config, warnings)) } else { Err(errors) }
}

/// Names under which no API server would hold a lease.
fn lease(file: &CapstanConfiguration, scheduler_name: &str, errors: &mut Vec<Finding>) {
    let election = &file.leader_election;
    let (path, name) = match &election.resource_name {
        Some(name) => ("leaderElection.resourceName", name.as_str()),
        None => ("schedulerName", scheduler_name),
    };
    let capitals = name.contains(|letter: char| letter.is_ascii_uppercase());
    let capitals = capitals.then(|| format!("{name:?} has capitals, which no name has"));
    let elects = election.leader_elect != Some(false);
    let wrong = names::subdomain(name).or(capitals).filter(|_| elects);
    // A scheduler's name that is none at all was named already.
    let known = errors.iter().any(|(at, _)| at == path);
    errors.extend(wrong.filter(|_| !known).map(|problem| (path.to_owned(), problem)));
    let namespace = election.resource_namespace.as_deref().and_then(names::label);
    let at = "leaderElection.resourceNamespace";
    errors.extend(namespace.map(|problem| (at.to_owned(), problem)));
}

fn seconds(given: Option<i64>, default: Span) -> Span {
    given.map_or(default, Span::seconds)
}

fn weights(profile: &Profile) -> Weights {
    let default = Weights::default();
    Weights {
        cost: profile.cost.unwrap_or(default.cost),
        capacity: profile.capacity.unwrap_or(default.capacity),
        locality: profile.locality.unwrap_or(default.locality),
        packing: profile.packing.unwrap_or(default.packing),
        gpu_fit: profile.gpu_fit.unwrap_or(default.gpu_fit),
        soft_taints: profile.soft_taints.unwrap_or(default.soft_taints),
        node_affinity: profile.node_affinity.unwrap_or(default.node_affinity),
        image_locality: profile.image_locality.unwrap_or(default.image_locality),
        pod_affinity: profile.pod_affinity.unwrap_or(default.pod_affinity),
        topology_spread: profile.topology_spread.unwrap_or(default.topology_spread),
        device_choice: profile.device_choice.unwrap_or(default.device_choice),
        storage_capacity: profile.storage_capacity.unwrap_or(default.storage_capacity),
    }
}

fn levels(given: Option<&[String]>, errors: &mut Vec<Finding>) -> Option<Vec<Text>> {
    let given = given?;
    let mut seen = BTreeSet::new();
    for (index, level) in given.iter().enumerate() {
        let path = format!("topology.levels[{index}]");
        if level.is_empty() {
            errors.push((path, "empty; name a node label".to_owned()));
        } else if !seen.insert(level) {
            errors.push((path, format!("{level} is listed twice")));
        }
    }
    if given.len() > LEVELS_MAX {
        let problem = format!("{} levels; at most {LEVELS_MAX} can be told apart", given.len());
        errors.push(("topology.levels".to_owned(), problem));
    }
    Some(given.iter().map(|level| level.as_str().into()).collect())
}

/// How starts are kept for heads that wait; `None`: none is.
fn reservations(given: &Reservations) -> Option<Reserving> {
    let usual = Reserving::default();
    (given.enable != Some(false)).then_some(Reserving {
        most: given.max_reserved.unwrap_or(usual.most),
        learns: given.learn_run_times.unwrap_or(usual.learns),
    })
}

/// How long claims may take to be bound.
fn volume_timeout(rules: &Rules, usual: Span, errors: &mut Vec<Finding>) -> Span {
    match rules.volume_binding.bind_timeout_seconds {
        None | Some(0) => usual,
        Some(seconds) if seconds > 0 => Span::seconds(seconds.min(SECONDS_MAX)),
        Some(seconds) => {
            let problem = format!("{seconds} is below zero; seconds are 0 or more");
            errors.push(("rules.volumeBinding.bindTimeoutSeconds".to_owned(), problem));
            usual
        }
    }
}

/// How long devices may take to be made ready.
fn device_timeout(rules: &Rules, usual: Span) -> Span {
    let given = rules.dynamic_resources.binding_timeout.map(|it| it.0);
    given.filter(|span| span.0 > 0).unwrap_or(usual)
}

/// More seconds than a year has are as good as a year.
const SECONDS_MAX: i64 = 366 * 24 * 3_600;

fn rules(rules: &Rules) -> RuleArgs {
    let added = rules.node_affinity.added_affinity.as_ref();
    let required =
        added.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let preferred = added
        .map(|it| selector::preferred(&it.preferred_during_scheduling_ignored_during_execution));
    let texts = |list: &[String]| list.iter().map(|text| text.as_str().into()).collect();
    RuleArgs {
        added_affinity: required.map(selector::node_selector),
        added_preferences: preferred.unwrap_or_default(),
        ignored_resources: texts(&rules.node_resources_fit.ignored_resources),
        ignored_resource_groups: texts(&rules.node_resources_fit.ignored_resource_groups),
        toleration_comparison: false,
    }
}

fn gates_of(file: &CapstanConfiguration, rules: &mut RuleArgs, errors: &mut Vec<Finding>) {
    let gates = &file.feature_gates;
    for name in gates.keys().filter(|name| gates::KNOWN.binary_search(&name.as_str()).is_err()) {
        let mut problem = "no feature gate of kube-scheduler".to_owned();
        if let Some(near) = nearest(name, gates::KNOWN.iter().copied()) {
            problem = format!("{problem} (did you mean {near}?)");
        }
        errors.push((field("featureGates", name), problem));
    }
    let all_alpha = gates.get("AllAlpha").copied().unwrap_or(false);
    rules.toleration_comparison =
        gates.get(gates::TOLERATION_COMPARISON).copied().unwrap_or(all_alpha);
}

/// Durations below zero, and leases that could never be renewed in time, or would be without pause.
fn durations(file: &CapstanConfiguration, errors: &mut Vec<Finding>) {
    let election = &file.leader_election;
    let ready = file.wait_for_pods_ready.as_ref();
    let autoscaler = file.autoscaler.as_ref();
    let sharing = file.admission_fair_sharing.as_ref();
    let devices = &file.rules.dynamic_resources;
    let all: [(&str, Option<GoDuration>); 9] = [
        ("rules.dynamicResources.bindingTimeout", devices.binding_timeout),
        ("leaderElection.leaseDuration", election.lease_duration),
        ("leaderElection.renewDeadline", election.renew_deadline),
        ("leaderElection.retryPeriod", election.retry_period),
        ("waitForPodsReady.timeout", ready.and_then(|it| it.timeout)),
        ("waitForPodsReady.recoveryTimeout", ready.and_then(|it| it.recovery_timeout)),
        ("autoscaler.provisioningTimeout", autoscaler.and_then(|it| it.provisioning_timeout)),
        ("admissionFairSharing.usageHalfLifeTime", sharing.and_then(|it| it.usage_half_life_time)),
        (
            "admissionFairSharing.usageSamplingInterval",
            sharing.and_then(|it| it.usage_sampling_interval),
        ),
    ];
    for (path, _) in all.iter().filter(|(_, it)| it.is_some_and(|it| it.0.0 < 0)) {
        errors.push(((*path).to_owned(), "below zero".to_owned()));
    }
    let span = |given: Option<GoDuration>, default: i64| given.map_or(default, |it| it.0.0);
    let lease = span(election.lease_duration, 15_000);
    let renew = span(election.renew_deadline, 10_000);
    let retry = span(election.retry_period, 2_000);
    if lease <= renew {
        let problem = "must be longer than renewDeadline";
        errors.push(("leaderElection.leaseDuration".to_owned(), problem.to_owned()));
    }
    if renew <= retry {
        let problem = "must be longer than retryPeriod";
        errors.push(("leaderElection.renewDeadline".to_owned(), problem.to_owned()));
    }
    if retry == 0 {
        let problem = "must be a millisecond or more";
        errors.push(("leaderElection.retryPeriod".to_owned(), problem.to_owned()));
    }
}

fn quota_apis(given: Option<&[QuotaApiName]>, errors: &mut Vec<Finding>) -> Vec<QuotaApi> {
    let Some(given) = given else { return vec![QuotaApi::Capstan] };
    if given.is_empty() {
        let problem = "empty; name capstan.sh, kueue.x-k8s.io or both";
        errors.push(("quotaApis".to_owned(), problem.to_owned()));
    }
    let named: BTreeSet<QuotaApi> = given
        .iter()
        .map(|name| match name {
            QuotaApiName::Capstan => QuotaApi::Capstan,
            QuotaApiName::Kueue => QuotaApi::Kueue,
        })
        .collect();
    named.into_iter().collect()
}

fn prices(file: &CapstanConfiguration, errors: &mut Vec<Finding>) -> PriceConfig {
    let mut dollars = |path: String, given: Quantity| {
        if given.is_negative() {
            errors.push((path, "a price below zero; use 0 or more".to_owned()));
        }
        given.dollars()
    };
    let text = |given: &Option<String>| given.as_deref().map(Text::from);
    let entries = file.prices.iter().enumerate().map(|(index, item)| PriceEntry {
        instance_type: text(&item.instance_type),
        region: text(&item.region),
        zone: text(&item.zone),
        capacity_type: item.capacity_type.map(capacity_type),
        labels: selector::pairs(&item.node_labels),
        per_hour: dollars(format!("prices[{index}].usdPerHour"), item.usd_per_hour),
    });
    let entries = entries.collect();
    let reserved = file.capacity_types.reserved_usd_per_hour;
    let reserved_per_hour = reserved
        .map_or(MicroUsd(0), |given| dollars("capacityTypes.reservedUsdPerHour".to_owned(), given));
    let label = |item: &super::file::CapacityLabelItem| CapacityLabel {
        key: item.key.as_str().into(),
        values: item
            .values
            .iter()
            .map(|(value, kind)| (value.as_str().into(), capacity_type(*kind)))
            .collect(),
    };
    let capacity_labels = file.capacity_types.labels.iter().map(label).collect();
    PriceConfig { entries, capacity_labels, reserved_per_hour }
}

fn capacity_type(name: CapacityTypeName) -> CapacityType {
    match name {
        CapacityTypeName::Spot => CapacityType::Spot,
        CapacityTypeName::OnDemand => CapacityType::OnDemand,
        CapacityTypeName::Reserved => CapacityType::Reserved,
    }
}

/// Fair sharing, if it is on, with the strategies that Kueue allows together.
fn fair_sharing(
    given: Option<&FairSharing>,
    errors: &mut Vec<Finding>,
) -> Option<policy::FairSharing> {
    use PreemptionStrategy::{LessThanInitialShare, LessThanOrEqualToFinalShare};
    let given = given.filter(|sharing| sharing.enable != Some(false))?;
    match &given.preemption_strategies[..] {
        [] | [LessThanOrEqualToFinalShare, LessThanInitialShare] => {
            Some(policy::FairSharing::FinalThenInitial)
        }
        [LessThanOrEqualToFinalShare] => Some(policy::FairSharing::FinalShare),
        [LessThanInitialShare] => Some(policy::FairSharing::InitialShare),
        _ => {
            let problem = "use LessThanOrEqualToFinalShare, LessThanInitialShare, or both in \
                           that order";
            errors.push(("fairSharing.preemptionStrategies".to_owned(), problem.to_owned()));
            None
        }
    }
}

/// What LocalQueues used of late, if that is to decide.
fn usage_sharing(
    given: Option<&AdmissionFairSharing>,
    errors: &mut Vec<Finding>,
) -> Option<UsageSharing> {
    let given = given?;
    let interval = given.usage_sampling_interval.map_or(SAMPLING, |it| it.0);
    if interval.0 == 0 {
        let problem = "nothing can be looked at all the time; use 5m, say".to_owned();
        errors.push(("admissionFairSharing.usageSamplingInterval".to_owned(), problem));
    }
    let mut weights = BTreeMap::new();
    for (name, weight) in &given.resource_weights {
        match u64::try_from(weight.nano()) {
            Ok(weight) => _ = weights.insert(name.as_str().into(), weight),
            Err(_) => {
                let problem = format!("{weight} is no weight; use 0 or more, up to 18 billion");
                errors.push((field("admissionFairSharing.resourceWeights", name), problem));
            }
        }
    }
    let half_life = given.usage_half_life_time.map_or(Span(0), |it| it.0);
    Some(UsageSharing { half_life, interval, weights })
}

/// How often usage is looked at, where the file does not say.
const SAMPLING: Span = Span::minutes(5);

/// Parts that are checked and kept, but change nothing in this version.
fn unused(file: &CapstanConfiguration) -> Vec<Finding> {
    let set = [
        ("resources.deviceClassMappings", !file.resources.device_class_mappings.is_empty()),
        ("autoscaler", file.autoscaler.is_some()),
    ];
    set.iter()
        .filter(|(_, set)| *set)
        .map(|(path, _)| ((*path).to_owned(), "has no effect in this version".to_owned()))
        .collect()
}
