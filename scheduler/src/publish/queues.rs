//! Status of ClusterQueues, LocalQueues and Cohorts, from the engine's views.
//!
//! What is not known here is left as the API shows it; a share that nobody reckons any more is not,
//! nor a budget that was taken away. What was spent of a budget is written once a minute at most,
//! and at once when it ends, or begins anew ([`super::budget`]).

use std::collections::BTreeMap;

use capstan_core::explain::quantity::{self as words, USD_PER_HOUR, is_gpu, per_unit};
use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::{CohortView, LocalQueueView, QueueView};
use capstan_core::model::input::Text;
use capstan_core::money::MicroUsd;
use capstan_core::time::Time;

use super::budget;
use super::conditions::{Says, api_time, set};
use crate::api::cluster_queue::{ClusterQueueStatus, CohortStatus};
use crate::api::local_queue::LocalQueueStatus;
use crate::api::usage::{
    AdmissionFairSharingStatus, FairSharingStatus, FlavorUsage, LocalQueueFairSharingStatus,
    ResourceUsage,
};
use crate::quantity::Quantity;

/// What the rule begins with that a queue in both API groups breaks, and the word for it.
const DUPLICATE: &str = "DuplicateQueue";

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

/// The status that a ClusterQueue should show, given the one that it does.
pub fn cluster_queue(
    shown: &ClusterQueueStatus,
    view: &QueueView,
    now: Time,
) -> ClusterQueueStatus {
    let mut usage: BTreeMap<&Text, Vec<ResourceUsage>> = BTreeMap::new();
    for line in &view.quotas {
        usage.entry(&line.flavor).or_default().push(ResourceUsage {
            name: line.resource.to_string(),
            total: Quantity::of_amount(&line.resource, line.used),
            borrowed: Some(Quantity::of_amount(&line.resource, line.borrowed)),
        });
    }
    let usage = by_flavor(usage);
    let mut status = ClusterQueueStatus {
        pending_workloads: number(view.pending),
        reserving_workloads: number(view.admitted),
        admitted_workloads: number(view.admitted),
        gpus: used_of(view, is_gpu),
        cpu: used_of(view, |resource| resource == CPU),
        memory: used_of(view, |resource| resource == MEMORY),
        usd_per_hour: price_of(view),
        flavors_reservation: usage.clone(),
        flavors_usage: usage,
        fair_sharing: view.share.map(share),
        budget: budget::status(shown.budget.as_ref(), view.spending.as_deref(), now),
        ..shown.clone()
    };
    set(&mut status.conditions, active(view.inactive.as_ref(), "can admit new workloads"), now);
    budget::tell(&mut status.conditions, view.spending.as_deref(), now);
    status
}

/// `used/own quota` of the resources of one column, over all flavors; empty: the queue has no
/// quota of them.
fn used_of(view: &QueueView, of: impl Fn(&str) -> bool) -> String {
    let lines: Vec<_> = view.quotas.iter().filter(|line| of(&line.resource)).collect();
    let Some(first) = lines.first() else { return String::new() };
    let (mut used, mut nominal) = (0_i64, 0_i64);
    for line in &lines {
        used = used.saturating_add(line.used);
        nominal = nominal.saturating_add(line.nominal);
    }
    let text = |amount: i64| words::quantity(&first.resource, amount);
    format!("{}/{}", text(used), text(nominal))
}

/// What a queue's work costs an hour, and beside it its own quota of money if it has one.
fn price_of(view: &QueueView) -> String {
    let of_money = view.quotas.iter().filter(|line| &*line.resource == USD_PER_HOUR);
    let nominal = of_money.map(|line| line.nominal).reduce(i64::saturating_add);
    let price = |usd| words::price(usd, view.unpriced);
    match (view.per_hour, nominal) {
        (cost, Some(nominal)) => {
            format!("{}/{}", price(cost.unwrap_or_default()), MicroUsd(nominal))
        }
        (Some(cost), None) => price(cost),
        (None, None) => String::new(),
    }
}

/// The status that a LocalQueue should show, given the one that it does.
pub fn local_queue(shown: &LocalQueueStatus, view: &LocalQueueView, now: Time) -> LocalQueueStatus {
    let mut usage: BTreeMap<&Text, Vec<ResourceUsage>> = BTreeMap::new();
    let (mut gpus, mut cpu) = (0_i64, 0_i64);
    let any_cpu = view.used.keys().any(|(_, resource)| &**resource == CPU);
    for ((flavor, resource), used) in &view.used {
        usage.entry(flavor).or_default().push(ResourceUsage {
            name: resource.to_string(),
            total: Quantity::of_amount(resource, *used),
            borrowed: None,
        });
        let sums = [(is_gpu(resource), &mut gpus), (&**resource == CPU, &mut cpu)];
        for (_, sum) in sums.into_iter().filter(|(of, _)| *of) {
            *sum = sum.saturating_add(*used);
        }
    }
    let usage = by_flavor(usage);
    let mut status = LocalQueueStatus {
        pending_workloads: number(view.pending),
        reserving_workloads: number(view.admitted),
        admitted_workloads: number(view.admitted),
        gpus,
        cpu: if any_cpu { words::quantity(CPU, cpu) } else { String::new() },
        usd_per_hour: view.per_hour.map(|usd| words::price(usd, view.unpriced)).unwrap_or_default(),
        flavors_reservation: usage.clone(),
        flavors_usage: usage,
        fair_sharing: view.consumed.as_ref().map(consumed),
        ..shown.clone()
    };
    let mut says = active(view.inactive.as_ref(), "can submit new workloads to its ClusterQueue");
    if matches!(view.inactive, Some(Reason::Inactive { .. })) {
        // Nobody stopped this one; the message says what is with the other.
        says.reason = "ClusterQueueIsInactive";
    }
    set(&mut status.conditions, says, now);
    status
}

/// What a LocalQueue used of late.
fn consumed((amounts, at): &(BTreeMap<Text, i64>, Time)) -> LocalQueueFairSharingStatus {
    let named = amounts.iter().map(|(name, thousandths)| {
        let part = 1_000_000 / i128::from(per_unit(name));
        (name.to_string(), Quantity::of_nano(i128::from(*thousandths) * part))
    });
    LocalQueueFairSharingStatus {
        // A LocalQueue has no quota of its own that it could exceed.
        weighted_share: 0,
        admission_fair_sharing_status: Some(AdmissionFairSharingStatus {
            consumed_resources: named.collect(),
            last_update: Some(api_time(*at)),
        }),
    }
}

/// The status that a Cohort should show, given the one that it does.
pub fn cohort(shown: &CohortStatus, view: &CohortView, now: Time) -> CohortStatus {
    let mut status = shown.clone();
    status.fair_sharing = view.share.map(share);
    let says = match &view.inactive {
        None => ready("its quota is shared by its members"),
        Some(why) => {
            Says { of: "Active", status: false, reason: word(why), message: why.to_string() }
        }
    };
    set(&mut status.conditions, says, now);
    status
}

fn share(weighted_share: i64) -> FairSharingStatus {
    FairSharingStatus { weighted_share }
}

fn ready(message: &str) -> Says<'static> {
    Says { of: "Active", status: true, reason: "Ready", message: message.to_owned() }
}

fn active(inactive: Option<&Reason>, can: &str) -> Says<'static> {
    match inactive {
        None => ready(can),
        Some(why) => Says {
            of: "Active",
            status: false,
            reason: inactive_word(why),
            message: why.to_string(),
        },
    }
}

/// Kueue's words for an inactive queue, where it has one.
fn inactive_word(reason: &Reason) -> &'static str {
    match reason {
        Reason::Inactive { why, .. } => word(why),
        Reason::LocalQueueStopped { .. } => "Stopped",
        Reason::ClusterQueueMissing { .. } => "ClusterQueueDoesNotExist",
        Reason::LocalQueueBroken { rule, .. } if rule.starts_with(DUPLICATE) => DUPLICATE,
        Reason::LocalQueueBroken { .. } => "Invalid",
        other => other.code(),
    }
}

fn word(why: &Inactive) -> &'static str {
    match why {
        Inactive::Terminating => "Terminating",
        Inactive::Stopped => "Stopped",
        Inactive::FlavorMissing(_) => "FlavorNotFound",
        Inactive::TopologyMissing { .. } => "TopologyNotFound",
        Inactive::FlavorBroken(..) => "FlavorInvalid",
        Inactive::CohortCycle(_) => "CohortCycle",
        Inactive::CohortBroken(..) => "CohortInvalid",
        Inactive::Broken(rule) if rule.starts_with(DUPLICATE) => DUPLICATE,
        Inactive::Broken(_) => "Invalid",
    }
}

fn by_flavor(usage: BTreeMap<&Text, Vec<ResourceUsage>>) -> Vec<FlavorUsage> {
    let named = usage.into_iter().map(|(flavor, mut resources)| {
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        FlavorUsage { name: flavor.to_string(), resources }
    });
    named.collect()
}

fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
