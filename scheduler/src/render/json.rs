//! The JSON of `simulate` and `explain`: one object, whose fields only grow.
//!
//! Tools rely on it, so nothing here depends on the machine or the moment (no elapsed time).
//! Money is in US dollars, amounts in the engine's units (CPU in milli-units, bytes).

use std::collections::BTreeMap;

use capstan_core::explain::reason::NodeRefusal;
use capstan_core::explain::view::{
    Account, Amount, Binding, Change, Forecast, Holder, Limit, NodeVerdict, Obstacle, Place,
    PodExplanation, QueueView, Remedy, WorkloadExplanation, WorkloadView,
};
use capstan_core::model::input::Enforcement;
use capstan_core::money::MicroUsd;
use capstan_core::plan::Preemption;
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::Totals;
use super::explanation::{no_forecast, workload_notes};
use super::result::{Explained, Happening, Moment, SimulationResult};
use super::simulation::STARTS_ASSUME;
use super::state::{PublicState, full_name, is_pending};

/// A simulation, pretty-printed, with a newline at the end.
pub fn simulation(result: &SimulationResult) -> String {
    let totals = Totals::of(result);
    let pending: Vec<String> =
        result.workloads.iter().filter(|view| is_pending(view)).map(full_name).collect();
    pretty(&json!({
        "cycles": result.rounds,
        "settled": result.settled,
        "workloads": result.workloads.iter().map(workload_object).collect::<Vec<_>>(),
        "admitted": result.admitted,
        "pending": pending,
        "preempted": result.preempted.iter().map(preemption_object).collect::<Vec<_>>(),
        "queues": result.queues.iter().map(queue_object).collect::<Vec<_>>(),
        "summary": {
            "nodes": result.nodes.len(),
            "gpus": totals.gpus,
            "gpusAllocated": totals.gpus_used,
            "usdPerHour": dollars(totals.used_per_hour),
            "nodesUsdPerHour": dollars(totals.nodes_per_hour),
            "nodesWithoutPrice": totals.nodes_unpriced,
        },
        "timeline": result.timeline.iter().map(moment_object).collect::<Vec<_>>(),
        "ignoredKinds": result.ignored_kinds,
        "warnings": result.warnings,
    }))
}

/// Why a workload waits or runs.
pub fn workload(explained: &Explained<WorkloadExplanation>) -> String {
    let explanation = &explained.explanation;
    let mut object = json!({
        "workload": full_name(&explanation.workload),
        "ahead": explanation.ahead,
        "positionInClusterQueue": explanation.position.map(|it| it.in_cluster_queue),
        "positionInLocalQueue": explanation.position.and_then(|it| it.in_local_queue),
        "forecast": explanation.forecast.as_ref().map(forecast_object),
        "noForecast": no_forecast(explanation),
        "inTheWay": explanation.in_the_way.iter().map(obstacle_object).collect::<Vec<_>>(),
        "remedies": explanation.remedies.iter().map(remedy_object).collect::<Vec<_>>(),
        "feasible": feasible(&explanation.nodes),
        "nodesOf": explanation.nodes_of,
        "nodesAs": explanation.nodes_as,
        "nodes": explanation.nodes.iter().map(verdict_object).collect::<Vec<_>>(),
        "warnings": explained.warnings,
    });
    if let (Value::Object(to), Ok(Value::Object(from))) =
        (&mut object, serde_json::to_value(workload_object(&explanation.workload)))
    {
        to.extend(from);
    }
    pretty(&object)
}

/// When a workload is to start, and what that takes for granted.
fn forecast_object(forecast: &Forecast) -> Value {
    json!({
        "start": rfc3339(forecast.start),
        "reserved": forecast.reserved,
        "ends": forecast.assumes.ends,
        "last": forecast.assumes.last.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "after": forecast.assumes.after.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "budgetOf": forecast.assumes.budget_of.as_deref(),
        "ahead": forecast.assumes.ahead,
        "mayPass": forecast.assumes.passes,
        "message": forecast.to_string(),
    })
}

/// On which nodes a pod may run.
pub fn pod(explained: &Explained<PodExplanation>) -> String {
    let explanation = &explained.explanation;
    pretty(&json!({
        "pod": format!("{}/{}", explanation.namespace, explanation.name),
        "feasible": feasible(&explanation.nodes),
        "waits": explanation.waits.as_ref().map(|reason| {
            json!({"reason": reason.code(), "message": reason.to_string()})
        }),
        "nodes": explanation.nodes.iter().map(verdict_object).collect::<Vec<_>>(),
        "warnings": explained.warnings,
    }))
}

/// What waits in a queue, in order: the fields of Kueue's visibility API.
pub fn line(places: &[Place]) -> String {
    let items = places.iter().map(|place| {
        json!({
            "metadata": {
                "namespace": &*place.namespace,
                "name": &*place.name,
                "creationTimestamp": rfc3339(place.created),
            },
            "priority": place.priority,
            "localQueueName": place.local_queue.as_deref(),
            "positionInClusterQueue": place.position.in_cluster_queue,
            "positionInLocalQueue": place.position.in_local_queue,
        })
    });
    pretty(&json!({"items": items.collect::<Vec<_>>()}))
}

/// A workload of the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadObject<'a> {
    name: String,
    queue: Option<String>,
    cluster_queue: Option<&'a str>,
    priority: i32,
    state: &'static str,
    flavors: BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>,
    borrowed: bool,
    gpus: i64,
    min_member: u32,
    usd_per_hour: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_start_assumes: Option<&'static str>,
    pods: Vec<PodObject<'a>>,
    reason: Option<&'static str>,
    message: Option<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct PodObject<'a> {
    name: String,
    node: Option<&'a str>,
}

fn workload_object(view: &WorkloadView) -> WorkloadObject<'_> {
    let flavors = view.pod_sets.iter().filter(|set| !set.flavors.is_empty()).map(|set| {
        let by_resource = set.flavors.iter().map(|(name, flavor)| (name.as_ref(), flavor.as_ref()));
        (set.name.as_ref(), by_resource.collect())
    });
    let pods = view.pods.iter().map(|place| PodObject {
        name: format!("{}/{}", view.namespace, place.pod),
        node: place.node.as_deref(),
    });
    let preemption = view.preempted.as_ref();
    let state = PublicState::of(view);
    let reason = match (&view.reason, preemption) {
        (Some(reason), _) => Some((reason.code(), reason.to_string())),
        (None, Some(stopped)) if state == PublicState::Preempted && !stopped.for_another() => {
            Some((stopped.reason.as_str(), stopped.because()))
        }
        (None, Some(preemption)) if state == PublicState::Preempted => {
            let message = format!("{} {}", preemption.preemptor, preemption.because());
            Some(("Preempted", message))
        }
        _ => None,
    };
    let (reason, message) = reason.unzip();
    WorkloadObject {
        name: full_name(view),
        queue: view.local_queue.as_ref().map(|queue| format!("{}/{queue}", view.namespace)),
        cluster_queue: view.cluster_queue.as_deref(),
        priority: view.priority,
        state: state.word(),
        flavors: flavors.collect(),
        borrowed: view.borrowed,
        gpus: view.gpus,
        min_member: view.min_member,
        usd_per_hour: view.per_hour.map(dollars),
        pods: pods.collect(),
        reason,
        message,
        reserved_start: view.reserved.map(rfc3339),
        reserved_start_assumes: view.reserved.map(|_| STARTS_ASSUME),
        notes: workload_notes(view),
    }
}

fn preemption_object(preemption: &Preemption) -> Value {
    json!({
        "name": &*preemption.victim,
        "by": &*preemption.preemptor,
        "reason": preemption.reason.as_str(),
        "message": preemption.because(),
        "lostSeconds": preemption.lost.0 / 1_000,
        "lostUsd": preemption.lost_cost.map(dollars),
    })
}

fn queue_object(queue: &QueueView) -> Value {
    // What nothing runs in costs nothing; where only unknown prices are, the sum is unknown.
    let idle = (queue.admitted == 0).then_some(MicroUsd(0));
    let quotas = queue.quotas.iter().map(|quota| {
        json!({
            "flavor": &*quota.flavor,
            "resource": &*quota.resource,
            "nominal": quota.nominal,
            "used": quota.used,
            "borrowed": quota.borrowed,
            "lent": quota.lent,
            "available": quota.available,
        })
    });
    let mut object = json!({
        "name": &*queue.name,
        "cohort": queue.cohort.as_deref(),
        "inactive": queue.inactive.as_ref().map(ToString::to_string),
        "quotas": quotas.collect::<Vec<_>>(),
        "pending": queue.pending,
        "admitted": queue.admitted,
        "usdPerHour": queue.per_hour.or(idle).map(dollars),
        "unpricedWorkloads": queue.unpriced,
    });
    if let Some(share) = queue.share {
        object["weightedShare"] = json!(share);
    }
    if let Some(account) = &queue.spending {
        object["budget"] = budget_object(account);
    }
    object
}

fn budget_object(account: &Account) -> Value {
    let (limit, (start, end)) = (account.limit(), account.period());
    json!({
        "usd": limit.usd.map(dollars),
        "gpuSeconds": limit.gpu_seconds,
        "period": limit.period.to_string(),
        "hard": limit.enforcement == Enforcement::Hard,
        "periodStart": rfc3339(start),
        "periodEnd": rfc3339(end),
        "spentUsd": dollars(account.usd()),
        "spentGpuSeconds": account.gpu_seconds(),
        "exhausted": account.over().is_some(),
        "runsOut": account.runs_out().filter(|at| *at < end).map(rfc3339),
        "unpricedPods": account.rate().unpriced,
        "assumedPods": account.rate().assumed,
    })
}

fn moment_object(moment: &Moment) -> Value {
    let (event, by) = match &moment.what {
        Happening::Arrived => ("Arrived", None),
        Happening::Admitted => ("Admitted", None),
        Happening::Preempted(by) => ("Preempted", Some(by)),
        Happening::Stopped(_) => ("Stopped", None),
        Happening::Resumed => ("Resumed", None),
        Happening::Finished => ("Finished", None),
    };
    json!({"at": rfc3339(moment.at), "name": moment.workload, "event": event, "by": by})
}

fn obstacle_object(obstacle: &Obstacle) -> Value {
    json!({
        "kind": obstacle.reason.kind(),
        "reason": obstacle.reason.code(),
        "message": obstacle.reason.to_string(),
        "resource": obstacle.reason.resource().map(|resource| &**resource),
        "asked": obstacle.asked,
        "left": obstacle.left,
        "limit": obstacle.binding.as_ref().map(binding_object),
    })
}

/// Whose limit it is, who uses it, and when enough of it is back.
fn binding_object(binding: &Binding) -> Value {
    let (kind, name) = holder_names(&binding.holder);
    let users = binding.by.iter().map(|(queue, used)| json!({"name": &**queue, "used": used}));
    let others = binding.others.map(|(queues, used)| json!({"queues": queues, "used": used}));
    json!({
        "kind": kind,
        "name": name,
        "field": binding.limit.field(),
        "flavor": &*binding.flavor,
        "resource": &*binding.resource,
        "amount": binding.amount,
        "used": binding.used,
        "usedBy": users.collect::<Vec<_>>(),
        "usedByOthers": others,
        "until": binding.until.map(rfc3339),
        "message": binding.to_string(),
    })
}

fn remedy_object(remedy: &Remedy) -> Value {
    let (kind, at) = match &remedy.change {
        Change::WaitFor { at, .. } => ("WaitFor", at.map(rfc3339)),
        Change::WaitUntil { at, .. } => ("WaitUntil", Some(rfc3339(*at))),
        Change::DeclareRunTime { .. } => ("DeclareRunTime", None),
        Change::RaiseBudget { .. } => ("RaiseBudget", None),
        Change::FewerPods { .. } => ("FewerPods", None),
        Change::LowerParallelism { .. } => ("LowerParallelism", None),
        Change::AllowCapacity { .. } => ("AllowCapacity", None),
        Change::RaiseQuota { .. } => ("RaiseQuota", None),
        Change::RaiseLimit { .. } => ("RaiseLimit", None),
        Change::AnotherFlavor { .. } => ("AnotherFlavor", None),
        Change::AllowPreemption { .. } => ("AllowPreemption", None),
    };
    let waits: Vec<&str> = match &remedy.change {
        Change::WaitFor { workload, with, .. } => {
            with.iter().chain([workload]).map(|name| &**name).collect()
        }
        _ => Vec::new(),
    };
    json!({
        "kind": kind,
        "change": remedy.change.to_string(),
        "waitFor": waits,
        "at": at,
        "startsPods": remedy.first,
        "usdPerHour": remedy.per_hour.map(dollars),
        "preempts": remedy.preempts.iter().map(|name| &**name).collect::<Vec<_>>(),
        "losesUsd": remedy.loses.map(dollars),
        "after": remedy.after.iter().map(|name| &**name).collect::<Vec<_>>(),
        "unless": remedy.unless.as_deref(),
        "raise": raise_object(&remedy.change),
    })
}

/// Which field of whom is to be raised and by exactly how much, or above what.
fn raise_object(change: &Change) -> Option<Value> {
    let amount = |resource: &str, by: i64| json!({"resource": resource, "by": by});
    match change {
        Change::RaiseQuota { cluster_queue, flavor, resource, by, with, beside } => {
            let all = std::iter::once((resource, by)).chain(with.iter().map(|(r, by)| (r, by)));
            let all = all.map(|(resource, by)| amount(resource, *by));
            let others = beside.iter().map(|(flavor, resource, by)| {
                json!({"flavor": &**flavor, "resource": &**resource, "by": by})
            });
            Some(json!({
                "kind": "ClusterQueue",
                "name": &**cluster_queue,
                "field": Limit::Quota.field(),
                "flavor": &**flavor,
                "amounts": all.chain(others).collect::<Vec<_>>(),
            }))
        }
        Change::RaiseLimit { holder, limit, flavor, resource, by } => {
            let (kind, name) = holder_names(holder);
            Some(json!({
                "kind": kind,
                "name": name,
                "field": limit.field(),
                "flavor": &**flavor,
                "amounts": [amount(resource, *by)],
            }))
        }
        Change::RaiseBudget { cluster_queue, field, above } => {
            let (unit, above) = match above {
                Amount::Usd(usd) => ("aboveMicroUsd", usd.0),
                Amount::GpuSeconds(seconds) => ("aboveGpuSeconds", *seconds),
            };
            let mut object = json!({
                "kind": "ClusterQueue",
                "name": &**cluster_queue,
                "field": format!("budget.{field}"),
            });
            object[unit] = above.into();
            Some(object)
        }
        _ => None,
    }
}

/// Kind and name of whose quota or limit it is.
fn holder_names(holder: &Holder) -> (&'static str, &str) {
    match holder {
        Holder::Queue(name) => ("ClusterQueue", name),
        Holder::Cohort(name) => ("Cohort", name),
    }
}

fn verdict_object(verdict: &NodeVerdict) -> Value {
    let reasons: Vec<String> = verdict.refusals.iter().map(ToString::to_string).collect();
    let mut object = json!({
        "name": &*verdict.node,
        "feasible": verdict.refusals.is_empty(),
        // Whether somebody who leaves could make it so.
        "removable": !reasons.is_empty() && verdict.refusals.iter().all(NodeRefusal::removable),
        "reasons": reasons,
    });
    if let Some(score) = &verdict.score {
        let terms: BTreeMap<&str, u32> =
            score.terms.iter().map(|term| (term.name, term.value)).collect();
        let weights: BTreeMap<&str, u32> =
            score.terms.iter().map(|term| (term.name, term.weight)).collect();
        object["score"] = json!({
            "total": score.total,
            "terms": terms,
            "weights": weights,
            "priceUnknown": score.price_unknown,
        });
    }
    object
}

fn feasible(nodes: &[NodeVerdict]) -> Vec<&str> {
    let fits = nodes.iter().filter(|verdict| verdict.refusals.is_empty());
    fits.map(|verdict| verdict.node.as_ref()).collect()
}

/// Shown, never computed with: a float of whole micro-dollars prints its exact decimals.
#[expect(clippy::cast_precision_loss, reason = "amounts of dollars are far below 2^53 micro-USD")]
fn dollars(usd: MicroUsd) -> f64 {
    usd.0 as f64 / 1_000_000.0
}

fn rfc3339(time: capstan_core::time::Time) -> String {
    jiff::Timestamp::from_millisecond(time.0).map(|stamp| stamp.to_string()).unwrap_or_default()
}

fn pretty(value: &Value) -> String {
    // Serializing a value of our own making cannot fail: keys are text and floats are finite.
    format!("{value:#}\n")
}
